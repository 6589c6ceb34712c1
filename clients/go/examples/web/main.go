// Command web is a web service that limits the requests of each address with the policy
// "reads".
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func main() {
	address := cmp.Or(os.Getenv("TOLLGATE"), "127.0.0.1:50051")
	client, err := tollgate.New(tollgate.Config{Addresses: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	// Requests pass while Tollgate is unreachable.
	limited := client.Policy("reads", tollgate.FailOpen()).Middleware(caller)
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"),
		Handler:           limited(hello),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

// caller is the address of the client. Behind a proxy, use the address that the proxy reports.
func caller(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return "ip:" + host
}
