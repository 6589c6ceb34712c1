package tollgate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

func TestBulkIsSplitAndItsItemsAreRepeated(t *testing.T) {
	t.Parallel()
	failed := false
	server := newFake(t, func(n int, request proto.Message) (proto.Message, error) {
		answer := &pb.RenewTasksResponse{}
		for i, item := range request.(*pb.RenewTasksRequest).GetRequests() {
			result := &pb.RenewTaskResult{Result: &pb.RenewTaskResult_Response{Response: &pb.RenewTaskResponse{
				Verdict: pb.RenewVerdict_RENEW_VERDICT_RENEWED, Lease: lasting(time.Hour),
			}}}
			switch {
			case item.GetDeviceId() == "":
				result.Result = &pb.RenewTaskResult_Error{Error: &pb.ItemError{
					Code: int32(codes.InvalidArgument), Message: "bad", Reason: "R",
					Violations: []*pb.ItemViolation{{Field: fmt.Sprintf("requests[%d].device_id", i), Description: "is required"}},
				}}
			case item.GetDeviceId() == "late" && !failed:
				failed = true
				result.Result = &pb.RenewTaskResult_Error{Error: &pb.ItemError{Code: int32(codes.DeadlineExceeded)}}
			}
			answer.Results = append(answer.Results, result)
		}
		return answer, nil
	})
	client, _ := server.client(t)
	items := make([]RenewItem, 2500)
	for i := range items {
		items[i].TaskRef = TaskRef{Pool: "p", Device: fmt.Sprint(i), Task: "t", Token: uint64(i)}
	}
	items[1700].Device = ""
	items[2400].Device = "late"
	results := client.RenewMany(context.Background(), items)
	equal(t, "requests", server.count(), 4)
	equal(t, "size", len(server.request(1).(*pb.RenewTasksRequest).GetRequests()), 1000)
	equal(t, "size of the repeat", len(server.request(4).(*pb.RenewTasksRequest).GetRequests()), 1)
	for i, result := range results {
		if i == 1700 {
			equal(t, "field", result.Err.Violations[0].Field, "requests[1700].device_id")
			equal(t, "reason", result.Err.Reason, "R")
		} else if result.Err != nil || result.Verdict != RenewRenewed || result.ValidFor <= 0 {
			t.Fatalf("result %d is %+v", i, result)
		}
	}
}

func TestBulkIsSplitBySize(t *testing.T) {
	t.Parallel()
	items := make([]*pb.CompleteTaskRequest, 200)
	for i := range items {
		items[i] = &pb.CompleteTaskRequest{Result: make([]byte, 65_536)}
	}
	total := 0
	for _, part := range chunks(items) {
		total += len(part)
		if size := proto.Size(&pb.CompleteTasksRequest{Requests: part}); size > 4<<20 {
			t.Errorf("a request has %d bytes", size)
		}
	}
	equal(t, "items", total, 200)
	equal(t, "parts of nothing", len(chunks([]*pb.CompleteTaskRequest{})), 0)
}

func TestFailedBulkFailsEachItem(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(int, proto.Message) (proto.Message, error) {
		return nil, failure(codes.PermissionDenied, 0)
	})
	client, _ := server.client(t)
	results := client.CompleteMany(context.Background(), make([]CompleteItem, 3))
	equal(t, "results", len(results), 3)
	for _, result := range results {
		equal(t, "code", result.Err.Code, codes.PermissionDenied)
	}
	equal(t, "requests", server.count(), 1)
}

func TestBulkCalls(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := real(t)
	admissions := client.AdmitMany(ctx, []AdmitItem{
		{Pool: name(t), Device: "a", Task: "t", Lease: time.Hour}, {Pool: "", Device: "b", Task: "t"}, {Pool: name(t), Device: "c"},
	})
	if failed := admissions[0].Err; failed != nil && failed.Code == codes.Unimplemented {
		t.Skip("the server has no bulk calls")
	}
	permit := admissions[0].Admission.Permit
	defer permit.Close(ctx)
	equal(t, "valid", permit.ValidFor() > 50*time.Minute, true)
	equal(t, "code", admissions[1].Err.Code, codes.InvalidArgument)
	equal(t, "field", strings.HasSuffix(admissions[1].Err.Violations[0].Field, "pool"), true)
	equal(t, "reason", admissions[2].Admission.Refusal.Reason, NoTask)

	ref := TaskRef{Pool: name(t), Device: "a", Task: "t", Token: permit.Token()}
	renewals := client.RenewMany(ctx, []RenewItem{{TaskRef: ref, Lease: time.Hour}})
	equal(t, "verdict", renewals[0].Verdict, RenewRenewed)
	other := ref
	other.Task = "never admitted"
	reports := client.CompleteMany(ctx, []CompleteItem{{TaskRef: ref}, {TaskRef: other}})
	equal(t, "verdict", reports[0].Verdict, CompleteCompleted)
	equal(t, "verdict", reports[1].Verdict, CompleteUnknown)
}
