package tollgate

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Sequence returns serial numbers that never repeat. It needs no creation.
type Sequence struct {
	client *Client
	name   string
}

// Sequence returns the sequence with a name of 1 to 256 bytes. It makes no call.
func (c *Client) Sequence(name string) *Sequence {
	return &Sequence{c, name}
}

// NextOptions are the options of [Sequence.Next]. The zero value asks for one value.
type NextOptions struct {
	// Count is the number of values, 1 to 10,000. Default: 1.
	Count uint32
	// Step is the distance between values, 1 and up. Default: 1.
	Step int64
	// Floor is the lower bound of the values, 0 to 2^63-1. Default: none.
	Floor *uint64
	// RequestID identifies the request: a repeat within 5 minutes returns the same values.
	// Default: a new id for each call, which its retries keep.
	RequestID string
}

// Values are values of a sequence: First, First+Step, … Last.
//
// With a calendar in the layout of the name they follow valid times; Serials has all of them.
type Values struct {
	// First is the first value.
	First uint64
	// Last is the last value.
	Last uint64
	// Step is the distance between values.
	Step uint64
	// Serials are the values in the layout of the name. It is empty without a layout.
	Serials []string
	// FloorApplied is true if the floor was above the next value.
	FloorApplied bool
	// Replayed is true if an earlier request with the same id got these values.
	Replayed bool
}

// Next returns values that no other call gets.
func (s *Sequence) Next(ctx context.Context, options NextOptions) (Values, error) {
	request := &pb.NextSequenceRequest{Name: s.name, Floor: options.Floor, RequestId: options.RequestID}
	if options.Count != 0 {
		request.Count = proto.Uint32(options.Count)
	}
	if options.Step != 0 {
		request.Step = proto.Int64(options.Step)
	}
	if request.RequestId == "" {
		request.RequestId = unique()
	}
	answer, _, err := call(ctx, s.client, s.client.plan(), request, s.client.sequences.NextSequence)
	if err != nil {
		return Values{}, err
	}
	return Values{
		First: answer.GetFirst(), Last: answer.GetLast(), Step: answer.GetStep(), Serials: answer.GetSerials(),
		FloorApplied: answer.GetFloorApplied(), Replayed: answer.GetReplayed(),
	}, nil
}

// Last returns the last value that was handed out, 0 for none, and its serial.
func (s *Sequence) Last(ctx context.Context) (uint64, string, error) {
	answer, _, err := call(ctx, s.client, s.client.plan(), &pb.GetSequenceRequest{Name: s.name}, s.client.sequences.GetSequence)
	return answer.GetLast(), answer.GetSerial(), err
}

// SetFloor moves the sequence forward, so that its next value is at least floor, 0 to 2^63-1. It
// returns false if the floor is not above the last value: nothing changed then. It needs the
// permission manage.
func (s *Sequence) SetFloor(ctx context.Context, floor uint64) (bool, error) {
	request := &pb.SetSequenceFloorRequest{Name: s.name, Floor: proto.Uint64(floor)}
	answer, _, err := call(ctx, s.client, s.client.plan(), request, s.client.sequences.SetSequenceFloor)
	return answer.GetApplied(), err
}
