package tollgate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"
)

// Stock is the stock of one product on sale. Set creates it.
type Stock struct {
	client *Client
	sku    string
}

// Stock returns the stock of a sku of 1 to 256 bytes. It makes no call.
func (c *Client) Stock(sku string) *Stock {
	return &Stock{c, sku}
}

// StockStatus contains the quantities of a sku: OnHand = Available + Reserved.
type StockStatus struct {
	// OnHand is the quantity on hand, including reserved ones.
	OnHand uint64
	// Available is the quantity that can be reserved.
	Available uint64
	// Reserved is the quantity held for orders.
	Reserved uint64
	// Sold is the quantity confirmed since the sku was created.
	Sold uint64
	// Replayed is true if an earlier request with the same id added, for Add only.
	Replayed bool
	// Holds is the number of reservations that are held, for Status only. Else it is 0.
	Holds uint64
}

func newStockStatus(s *pb.Stock) StockStatus {
	return StockStatus{OnHand: s.GetOnHand(), Available: s.GetAvailable(), Reserved: s.GetReserved(), Sold: s.GetSold()}
}

// Set sets the quantity on hand, 0 to 2^53-1, including reserved quantities. It creates the
// sku. The call is never retried: quantities that were sold since would be on hand again.
func (s *Stock) Set(ctx context.Context, onHand int64) (StockStatus, error) {
	plan := s.client.plan()
	plan.once = true
	answer, _, err := call(ctx, s.client, plan, &pb.SetStockRequest{Sku: s.sku, OnHand: proto.Int64(onHand)}, s.client.stock.SetStock)
	return newStockStatus(answer.GetStock()), err
}

// Add adds to the quantity on hand, or subtracts from it if delta is below 0. A repeat with
// the same requestID within 5 minutes returns the first answer. Empty: a new id for each
// call, which its retries keep.
func (s *Stock) Add(ctx context.Context, delta int64, requestID string) (StockStatus, error) {
	if requestID == "" {
		requestID = unique()
	}
	request := &pb.AddStockRequest{Sku: s.sku, Delta: delta, RequestId: requestID}
	answer, _, err := call(ctx, s.client, s.client.plan(), request, s.client.stock.AddStock)
	status := newStockStatus(answer.GetStock())
	status.Replayed = answer.GetReplayed()
	return status, err
}

// Status returns the quantities and the number of held reservations. It fails with NotFound
// before the first Set.
func (s *Stock) Status(ctx context.Context) (StockStatus, error) {
	answer, _, err := call(ctx, s.client, s.client.plan(), &pb.GetStockRequest{Sku: s.sku}, s.client.stock.GetStock)
	status := newStockStatus(answer.GetStock())
	status.Holds = answer.GetHolds()
	return status, err
}

// ReserveOutcome reports whether a quantity is reserved.
type ReserveOutcome string

const (
	// Reserved means that the quantity is held for the order.
	Reserved ReserveOutcome = "RESERVED"
	// Short means that fewer are available.
	Short ReserveOutcome = "SHORT"
	// BuyerLimit means that the buyer would have more than the limit.
	BuyerLimit ReserveOutcome = "BUYER_LIMIT"
	// AlreadySettled means that the reservation of the order was confirmed or cancelled.
	AlreadySettled ReserveOutcome = "ALREADY_SETTLED"
)

// ReserveOptions are the options of [Stock.Reserve].
type ReserveOptions struct {
	// Hold is the length of the hold, 1 ms to 30 days. Default: 15 minutes.
	Hold time.Duration
	// Buyer is the buyer whose quantities count for BuyerLimit. Default: none.
	Buyer string
	// BuyerLimit is the maximum that the buyer may have reserved and bought. Default: no limit.
	BuyerLimit int64
}

// ReserveAnswer is the answer to Reserve.
type ReserveAnswer struct {
	// Outcome reports whether the quantity is reserved.
	Outcome ReserveOutcome
	// Reservation is the held quantity. It is nil unless Outcome is Reserved.
	Reservation *Reservation
	// RetryAfter is the time until the next hold ends, on Short. 0 means that waiting does not
	// help.
	RetryAfter time.Duration
	// BuyerQuantity is the quantity that the buyer has, on BuyerLimit.
	BuyerQuantity uint64
	// Stock contains the current quantities.
	Stock StockStatus
}

// QuantityDiffersError is the error of Reserve for an order that holds another quantity. Nothing
// changed: confirm or cancel the order, or reserve under another one.
type QuantityDiffersError struct {
	// Held is the quantity that the order holds.
	Held uint64

	err *Error
}

// Error describes the order and both quantities.
func (e *QuantityDiffersError) Error() string {
	return e.err.Error()
}

// Unwrap returns an [Error] with the code FailedPrecondition and the reason "QUANTITY_DIFFERS".
func (e *QuantityDiffersError) Unwrap() error {
	return e.err
}

// Reserve holds a quantity, 1 to 1,000,000,000, for an order. A repeat while the hold runs
// returns the first reservation. If the order holds another quantity, it fails with
// [QuantityDiffersError].
func (s *Stock) Reserve(ctx context.Context, order string, quantity int64, options ReserveOptions) (ReserveAnswer, error) {
	request := &pb.ReserveStockRequest{
		Sku: s.sku, OrderId: order, Quantity: quantity, HoldDuration: optional(options.Hold), BuyerId: options.Buyer,
	}
	if options.BuyerLimit != 0 {
		request.BuyerLimit = proto.Int64(options.BuyerLimit)
	}
	if err := s.client.claims.settle(ctx, identity("order", s.sku, order), 0); err != nil {
		return ReserveAnswer{}, err
	}
	answer, sent, err := call(ctx, s.client, s.client.plan(), request, s.client.stock.ReserveStock)
	if err != nil {
		return ReserveAnswer{}, err
	}
	switch answer.GetOutcome() {
	case pb.ReserveOutcome_RESERVE_OUTCOME_QUANTITY_DIFFERS:
		held := answer.GetReservation().GetQuantity()
		message := fmt.Sprintf("order %q holds %d of %q, not %d; nothing changed", order, held, s.sku, quantity)
		return ReserveAnswer{}, &QuantityDiffersError{
			held, &Error{Code: codes.FailedPrecondition, Reason: "QUANTITY_DIFFERS", Message: message},
		}
	case pb.ReserveOutcome_RESERVE_OUTCOME_RESERVED, pb.ReserveOutcome_RESERVE_OUTCOME_SHORT,
		pb.ReserveOutcome_RESERVE_OUTCOME_BUYER_LIMIT, pb.ReserveOutcome_RESERVE_OUTCOME_ALREADY_SETTLED:
	default:
		return ReserveAnswer{}, unknown(answer.GetOutcome())
	}
	result := ReserveAnswer{
		Outcome:       named[ReserveOutcome](answer.GetOutcome(), "RESERVE_OUTCOME_"),
		RetryAfter:    answer.GetRetryAfter().AsDuration(),
		BuyerQuantity: answer.GetBuyerQuantity(),
		Stock:         newStockStatus(answer.GetStock()),
	}
	if result.Outcome == Reserved {
		result.Reservation = &Reservation{
			stock: s, order: order, quantity: answer.GetReservation().GetQuantity(), replayed: answer.GetReplayed(),
			expiry: sent + answer.GetReservation().GetExpiresIn().AsDuration(),
		}
	}
	return result, nil
}

// ConfirmOutcome reports whether a quantity is sold.
type ConfirmOutcome string

const (
	// Confirmed means that the quantity is sold to the order.
	Confirmed ConfirmOutcome = "CONFIRMED"
	// ConfirmedBefore means that an earlier call sold it. A repeat of a call whose answer was
	// lost gets it too.
	ConfirmedBefore ConfirmOutcome = "ALREADY_CONFIRMED"
	// ConfirmExpired means that the hold has lapsed and the quantity is no longer available.
	ConfirmExpired ConfirmOutcome = "EXPIRED"
	// ConfirmCancelled means that the reservation was cancelled.
	ConfirmCancelled ConfirmOutcome = "CANCELLED"
	// ConfirmUnknown means that the order has no known reservation.
	ConfirmUnknown ConfirmOutcome = "UNKNOWN"
)

// ConfirmAnswer is the answer to Confirm.
type ConfirmAnswer struct {
	// Outcome reports whether the quantity is sold.
	Outcome ConfirmOutcome
	// Retaken is true if the hold had lapsed, and the quantity was taken again.
	Retaken bool
	// Stock contains the current quantities.
	Stock StockStatus
}

// Confirm sells the reserved quantity of an order. After the hold has lapsed, as on a late
// payment, it takes the quantity again if that is available.
func (s *Stock) Confirm(ctx context.Context, order string) (ConfirmAnswer, error) {
	request := &pb.ConfirmReservationRequest{Sku: s.sku, OrderId: order}
	answer, _, err := call(ctx, s.client, s.client.plan(), request, s.client.stock.ConfirmReservation)
	if err != nil {
		return ConfirmAnswer{}, err
	}
	outcome := named[ConfirmOutcome](answer.GetOutcome(), "CONFIRM_OUTCOME_")
	return ConfirmAnswer{outcome, answer.GetRetaken(), newStockStatus(answer.GetStock())}, nil
}

// SettleOutcome reports whether a reservation was cancelled.
type SettleOutcome string

const (
	// Cancelled means that the quantity is available again.
	Cancelled SettleOutcome = "CANCELLED"
	// CancelledBefore means that an earlier call cancelled it. A repeat of a call whose answer
	// was lost gets it too.
	CancelledBefore SettleOutcome = "ALREADY_CANCELLED"
	// CancelConfirmed means that the quantity is sold.
	CancelConfirmed SettleOutcome = "ALREADY_CONFIRMED"
	// CancelExpired means that the hold had lapsed.
	CancelExpired SettleOutcome = "EXPIRED"
	// CancelNotFound means that the order has no known reservation.
	CancelNotFound SettleOutcome = "UNKNOWN"
)

// Cancel returns the reserved quantity of an order.
func (s *Stock) Cancel(ctx context.Context, order string) (SettleOutcome, error) {
	request := &pb.CancelReservationRequest{Sku: s.sku, OrderId: order}
	answer, _, err := call(ctx, s.client, s.client.plan(), request, s.client.stock.CancelReservation)
	if err != nil {
		return "", err
	}
	return named[SettleOutcome](answer.GetOutcome(), "CANCEL_OUTCOME_"), nil
}

// Reservation is a quantity that is held for an order. Close cancels it unless Confirm was
// called:
//
//	defer reservation.Close(ctx)
type Reservation struct {
	stock    *Stock
	order    string
	quantity uint64
	replayed bool
	expiry   time.Duration

	mu      sync.Mutex
	settled bool
}

// Order returns the order.
func (r *Reservation) Order() string { return r.order }

// Quantity returns the held quantity.
func (r *Reservation) Quantity() uint64 { return r.quantity }

// Replayed reports whether an earlier call reserved the quantity.
func (r *Reservation) Replayed() bool { return r.replayed }

// ValidFor returns the time until the hold lapses, counted from before the request.
func (r *Reservation) ValidFor() time.Duration {
	return max(0, r.expiry-r.stock.client.clock.Now())
}

// Confirm sells the quantity, as [Stock.Confirm] does.
//
// If it fails, the quantity may be sold: call it again. Close no longer cancels then, and an
// unsold hold lapses by itself.
func (r *Reservation) Confirm(ctx context.Context) (ConfirmAnswer, error) {
	r.settle()
	return r.stock.Confirm(ctx, r.order)
}

// Cancel returns the quantity, as [Stock.Cancel] does.
func (r *Reservation) Cancel(ctx context.Context) (SettleOutcome, error) {
	r.settle()
	return r.stock.Cancel(ctx, r.order)
}

// settle reports whether this is the first call.
func (r *Reservation) settle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.settled
	r.settled = true
	return first
}

// Close leaves the scope of the reservation. It cancels the reservation, unless Confirm or
// Cancel was called, even if ctx has ended. It takes at most the deadline of one call: without
// an answer the cancellation continues in the background until the hold ends.
func (r *Reservation) Close(ctx context.Context) {
	if !r.settle() {
		return
	}
	client := r.stock.client
	request := &pb.CancelReservationRequest{Sku: r.stock.sku, OrderId: r.order}
	_ = client.claims.leave(ctx, identity("order", r.stock.sku, r.order), r.expiry, func(ctx context.Context) error {
		_, err := client.stock.CancelReservation(ctx, request)
		return err
	})
}
