package tollgate

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// pages returns all items of a listing. After an error it ends.
func pages[T, R any](page func(token string) ([]T, string, error), convert func(T) R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		token := ""
		for {
			items, next, err := page(token)
			if err != nil {
				var none R
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(convert(item), nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// given returns the duration for the wire, and nil if it is not set.
func given(d *time.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(*d)
}
