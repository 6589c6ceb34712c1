package tollgate

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	pb "github.com/tollgate/tollgate/clients/go/tollgatepb"

	"google.golang.org/protobuf/types/known/durationpb"
)

// measure calls work from 32 goroutines for each processor.
func measure(b *testing.B, work func(client *Client, i int64) error) {
	client, err := New(testConfig(shared))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var count atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			if err := work(client, count.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func BenchmarkAdmitComplete(b *testing.B) {
	// A pool of its own for each run: its tasks are new.
	pool := fmt.Sprint(b.Name(), unique())
	measure(b, func(client *Client, i int64) error {
		_, err := client.Pool(pool).Run(context.Background(), fmt.Sprint("d", i%50), fmt.Sprint("t", i),
			func(context.Context, *Permit) error { return nil })
		return err
	})
}

func BenchmarkCheck(b *testing.B) {
	limit := uint64(1_000_000_000)
	rule := &pb.Rule{Limits: []*pb.Limit{{Max: &limit, Window: durationpb.New(60e9)}}}
	measure(b, func(client *Client, i int64) error {
		_, err := client.Policy("", WithRule(rule)).Check(context.Background(), fmt.Sprint("key", i%1000))
		return err
	})
}

func BenchmarkNext(b *testing.B) {
	measure(b, func(client *Client, _ int64) error {
		_, err := client.Sequence(b.Name()).Next(context.Background(), NextOptions{})
		return err
	})
}

func BenchmarkLock(b *testing.B) {
	measure(b, func(client *Client, i int64) error {
		_, err := client.Lock(fmt.Sprint("lock", i), "").Run(context.Background(),
			func(context.Context, *LockLease) error { return nil })
		return err
	})
}
