// Package tollgate is the client library of Tollgate, a service for admission, rate limits,
// sequences, locks and stock.
//
// Make one [Client] and share it. Refusals are values: a full pool, a held lock or a throttled
// key is not an error. An error, always an [*Error], means that no decision is known.
//
//	client, err := tollgate.New(tollgate.Config{Addresses: []string{"127.0.0.1:50051"}})
//	…
//	admission, err := client.Pool("ar:0571").Admit(ctx, "device-1", "task-1")
//	if err != nil {
//		return err
//	}
//	if admission.Permit == nil {
//		return retryAfter(admission.Refusal.RetryAfter)
//	}
//	defer admission.Permit.Close(ctx)
//
// # Time
//
// A permit or lock counts its lease from before the request was sent. It ends the lease 2 %
// early, at least 10 ms and at most 1 s. So it is lost before the server gives the slot to
// another task. On Linux and macOS the clock also advances while the machine sleeps.
//
// # Retries
//
// Each attempt of a call has a deadline, by default 1 s. UNAVAILABLE and DEADLINE_EXCEEDED are
// retried with exponential backoff and full jitter, RESOURCE_EXHAUSTED only after the time of
// RetryInfo. Every call is safe to repeat, except Stock.Set, which is never retried.
//
// Each call adds a fifth of a retry to the retry budget of the client, which holds at most ten.
// So a failing server gets at most a fifth more calls. Renewals and Complete are outside this
// budget: renewals are retried until the lease ends, Complete until its context ends.
package tollgate

// Version is the version of the library. Requests carry it in their user agent.
const Version = "0.1.0"
