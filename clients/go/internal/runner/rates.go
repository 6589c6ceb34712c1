package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

func policy(client *tollgate.Client, c *command) *tollgate.Policy {
	switch c.OnFailure {
	case "open":
		return client.Policy(c.Policy, tollgate.FailOpen())
	case "closed":
		return client.Policy(c.Policy, tollgate.FailClosed())
	default:
		return client.Policy(c.Policy)
	}
}

func check(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	var options []tollgate.CheckOption
	if c.Cost != nil {
		options = append(options, tollgate.WithCost(uint64(*c.Cost)))
	}
	if c.RequestID != "" {
		options = append(options, tollgate.WithRequestID(c.RequestID))
	}
	answer, err := policy(client, c).Check(ctx, c.Key, options...)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	answer.SetHeaders(header)
	headers := fields{}
	for name := range header {
		headers[strings.ToLower(name)] = header.Get(name)
	}
	result := fields{
		"allowed": answer.Allowed, "verdict": answer.Verdict, "replayed": answer.Replayed,
		"degraded": answer.Degraded, "headers": headers,
	}
	if !answer.Allowed {
		result["retry_after"] = answer.RetryAfter.Seconds()
	}
	return result, nil
}

func getKey(_ *runner, ctx context.Context, client *tollgate.Client, c *command) (fields, error) {
	key, err := client.Policy(c.Policy).Key(ctx, c.Key)
	limits := make([]fields, len(key.Limits))
	for i, limit := range key.Limits {
		limits[i] = fields{
			"name": limit.Name, "max": unsigned(limit.Max), "count": unsigned(limit.Count),
			"remaining": unsigned(limit.Remaining),
		}
	}
	return fields{"limits": limits, "banned": key.Ban != nil, "strikes": key.Strikes}, err
}

func addressKey(_ *runner, _ context.Context, _ *tollgate.Client, c *command) (fields, error) {
	return fields{"key": tollgate.AddressKey(c.Address, c.Prefix)}, nil
}

func httpStart(r *runner, _ context.Context, client *tollgate.Client, c *command) (fields, error) {
	limited := policy(client, c).Middleware(func(r *http.Request) string { return r.Header.Get("x-caller") })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: limited(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n"))
		}))}
	go func() { _ = server.Serve(listener) }()
	r.keep(c, server)
	return fields{"url": "http://" + listener.Addr().String() + "/"}, nil
}

func httpStop(_ *runner, _ context.Context, server *http.Server, _ *command) (fields, error) {
	return nil, server.Close()
}
