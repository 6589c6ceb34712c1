package tollgate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func event(cursor string, kind pb.PoolEventKind) *pb.WatchPoolResponse {
	return &pb.WatchPoolResponse{Event: &pb.PoolEvent{Cursor: cursor, Kind: kind}}
}

func TestWatchResumesAtItsCursorAndReportsGaps(t *testing.T) {
	t.Parallel()
	server := newFake(t, nil)
	var cursors []string
	server.watch = func(request *pb.WatchPoolRequest, stream grpc.ServerStreamingServer[pb.WatchPoolResponse]) error {
		cursors = append(cursors, request.GetAfter())
		switch len(cursors) {
		case 1:
			_ = stream.Send(event("5", pb.PoolEventKind_POOL_EVENT_KIND_ADMITTED))
			return failure(codes.Unavailable, 0)
		case 2:
			_ = stream.Send(event("9", pb.PoolEventKind_POOL_EVENT_KIND_GAP))
			_ = stream.Send(event("10", pb.PoolEventKind_POOL_EVENT_KIND_COMPLETED))
			return nil
		case 3:
			return failure(codes.ResourceExhausted, 0)
		}
		return failure(codes.InvalidArgument, 0)
	}
	client, _ := server.client(t)
	var kinds []string
	var last error
	for event, err := range client.Pool("p").Watch(context.Background(), "0") {
		last = err
		if err == nil {
			kinds = append(kinds, event.Kind+event.Cursor)
		}
	}
	var failed *Error
	if !errors.As(last, &failed) || failed.Code != codes.InvalidArgument {
		t.Errorf("the watch ends with %v", last)
	}
	if !slices.Equal(cursors, []string{"0", "5", "10", "10"}) {
		t.Errorf("cursors are %v", cursors)
	}
	if !slices.Equal(kinds, []string{"ADMITTED5", "GAP9", "COMPLETED10"}) {
		t.Errorf("events are %v", kinds)
	}
}

func TestWatchWithoutACursorReportsAGapWhenItResumes(t *testing.T) {
	t.Parallel()
	server := newFake(t, nil)
	streams := 0
	server.watch = func(request *pb.WatchPoolRequest, stream grpc.ServerStreamingServer[pb.WatchPoolResponse]) error {
		streams++
		equal(t, "has a cursor", request.After != nil, false)
		if err := stream.SendHeader(metadata.MD{}); err != nil {
			return err
		}
		if streams == 2 {
			return failure(codes.PermissionDenied, 0)
		}
		return failure(codes.Unavailable, 0)
	}
	client, _ := server.client(t)
	var kinds []string
	for event, err := range client.Pool("p").Watch(context.Background(), "") {
		if err == nil {
			kinds = append(kinds, event.Kind)
		}
	}
	if !slices.Equal(kinds, []string{KindGap}) {
		t.Errorf("events are %v", kinds)
	}
}

func TestWatchOfAPool(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool := real(t).Pool(name(t))
	permit := admitted(t, pool, "d", "t")
	must(permit.Complete(ctx, Failed, nil))(t)
	var kinds []string
	var last PoolEvent
	for event, err := range pool.Watch(ctx, "0") {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, event.Kind)
		last = event
		if len(kinds) == 2 {
			break
		}
	}
	equal(t, "events", strings.Join(kinds, " "), "ADMITTED COMPLETED")
	equal(t, "task", last.Device+"/"+last.Task, "d/t")
	equal(t, "token", last.Token, permit.Token())
	equal(t, "outcome", last.Outcome, Failed)
	equal(t, "has a time", last.Time.IsZero(), false)
	cancel()
	for _, err := range pool.Watch(ctx, "0") {
		equal(t, "error", errors.Is(err, context.Canceled), true)
	}
}

func TestWatchOfRates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	policy := real(t).Policy("three")
	for range 4 {
		must(policy.Check(ctx, name(t)))(t)
	}
	must(policy.Ban(ctx, name(t), 1e12, "by hand"))(t)
	for event, err := range policy.Watch(ctx, "0") {
		if err != nil {
			t.Fatal(err)
		}
		if event.Key == name(t) && event.Kind == "BANNED" {
			equal(t, "reason", event.Ban.Reason, "by hand")
			break
		}
	}
}
