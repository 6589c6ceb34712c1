package tollgate

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestTheDefaultKeyIsTheNetworkOfTheCaller(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return &pb.CheckRateResponse{Allowed: true, Verdict: pb.RateVerdict_RATE_VERDICT_ALLOW}, nil
	})
	client, _ := server.client(t)
	policy := client.Policy("p")
	passed := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	keys := map[string]func(*http.Request) string{"ip:2001:db8:1:2::/64": nil, "ip:2001:db8:1::/48": ByAddress(48)}
	for expected, key := range keys {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr = "[2001:db8:1:2::7]:443"
		policy.Middleware(key)(passed).ServeHTTP(httptest.NewRecorder(), request)
		equal(t, "key", server.request(server.count()).(*pb.CheckRateRequest).GetKey(), expected)
	}

	caller := &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 443}}
	ctx := peer.NewContext(context.Background(), caller)
	equal(t, "key", ByPeer(IPv6Bits)(ctx, "/m"), "ip:192.0.2.7")
	equal(t, "key", ByPeer(IPv6Bits)(context.Background(), "/m"), "")
}
