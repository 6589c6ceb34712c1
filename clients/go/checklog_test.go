package tollgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

func TestChecksThatWereNotDecidedAreLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) { return nil, failure(codes.NotFound, 0) })
	var lines bytes.Buffer
	config := testConfig(server.address)
	config.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	client := newClient(t, config)
	for range 5 {
		answer := must(client.Policy("a\u202eb", FailOpen()).Check(context.Background(), "k"))(t)
		equal(t, "allowed", answer.Allowed && answer.Degraded && answer.Err != nil, true)
	}
	equal(t, "lines", strings.Count(lines.String(), "\n"), 1)
	for _, part := range []string{`policy="a\u202eb"`, "NotFound", "fail open"} {
		if !strings.Contains(lines.String(), part) {
			t.Errorf("%s is missing in %s", part, lines.String())
		}
	}
	_, err := client.Policy("p", FailClosed()).Check(context.Background(), "k")
	var failed *Error
	equal(t, "error", errors.As(err, &failed) && failed.Code == codes.NotFound, true)

	log, now := newCheckLog(nil), time.Now()
	kinds := 0
	for i := range 3 * checkLogKinds {
		if _, due := log.due(checkKind{policy: fmt.Sprint(i)}, now); due {
			kinds++
		}
	}
	equal(t, "kinds", kinds, checkLogKinds+1)
	suppressed, due := log.due(checkKind{}, now.Add(checkLogPeriod))
	equal(t, "suppressed", suppressed, 2*checkLogKinds-1)
	equal(t, "due", due, true)
}
