package tollgate

import (
	"context"
	"iter"
	"time"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// NamedLock is a held lock of a listing.
type NamedLock struct {
	// Name is the name of the lock.
	Name string
	LockStatus
	// Expires is when the lease ends unless it is renewed, on the clock of the engine.
	Expires time.Time
	// ExpiresIn is the time until then, at the moment of the answer.
	ExpiresIn time.Duration
}

// Locks lists the held locks whose names begin with prefix, in no order. A lock can appear twice.
// A lock whose stored values cannot be read is left out. After an error the listing ends.
func (c *Client) Locks(ctx context.Context, prefix string) iter.Seq2[NamedLock, error] {
	return pages(func(token string) ([]*pb.Lock, string, error) {
		request := &pb.ListLocksRequest{Prefix: prefix, PageToken: token}
		answer, _, err := call(ctx, c, c.plan(), request, c.locks.ListLocks)
		return answer.GetLocks(), answer.GetNextPageToken(), err
	}, func(l *pb.Lock) NamedLock {
		lease := l.GetLease()
		return NamedLock{
			Name:       l.GetName(),
			LockStatus: LockStatus{true, lease.GetOwner(), lease.GetFencingToken(), int(l.GetWaiters())},
			Expires:    lease.GetExpireTime().AsTime(),
			ExpiresIn:  lease.GetExpiresIn().AsDuration(),
		}
	})
}

// NamedSequence is a sequence of a listing.
type NamedSequence struct {
	// Name is the name of the sequence.
	Name string
	// Last is the last value that was handed out.
	Last uint64
	// Serial is that value in the layout of the sequence; empty without a layout.
	Serial string
}

// Sequences lists the sequences whose names begin with prefix, as Client.Locks does.
func (c *Client) Sequences(ctx context.Context, prefix string) iter.Seq2[NamedSequence, error] {
	return pages(func(token string) ([]*pb.Sequence, string, error) {
		request := &pb.ListSequencesRequest{Prefix: prefix, PageToken: token}
		answer, _, err := call(ctx, c, c.plan(), request, c.sequences.ListSequences)
		return answer.GetSequences(), answer.GetNextPageToken(), err
	}, func(s *pb.Sequence) NamedSequence {
		return NamedSequence{s.GetName(), s.GetLast(), s.GetSerial()}
	})
}

// NamedStock is the stock of a sku in a listing.
type NamedStock struct {
	// SKU is the sku.
	SKU string
	StockStatus
}

// Stocks lists the skus that begin with prefix, as Client.Locks does.
func (c *Client) Stocks(ctx context.Context, prefix string) iter.Seq2[NamedStock, error] {
	return pages(func(token string) ([]*pb.Stock, string, error) {
		request := &pb.ListStockRequest{Prefix: prefix, PageToken: token}
		answer, _, err := call(ctx, c, c.plan(), request, c.stock.ListStock)
		return answer.GetStock(), answer.GetNextPageToken(), err
	}, func(s *pb.Stock) NamedStock {
		return NamedStock{s.GetSku(), newStockStatus(s)}
	})
}
