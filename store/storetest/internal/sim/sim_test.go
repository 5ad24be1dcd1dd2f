package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

func inMemory(t *testing.T, wrap func(driver.Store) driver.Store) Open {
	return func(now func() time.Time) driver.Store {
		c, err := sqlite.Open(":memory:", sqlite.Clock(now), sqlite.InboxTTL(InboxTTL))
		if err != nil {
			t.Fatal(err)
		}
		return wrap(driver.Of(c))
	}
}

func upTo(n int) []int {
	ops := make([]int, n)
	for i := range ops {
		ops[i] = i
	}
	return ops
}

// A seed does the same each time, to the last byte of every answer.
func TestRunRepeats(t *testing.T) {
	open := inMemory(t, func(s driver.Store) driver.Store { return s })
	first, second := Run(open, 7, upTo(200)), Run(open, 7, upTo(200))
	if first.Err != nil || second.Err != nil {
		t.Fatal(first.Err, second.Err)
	}
	if !slices.Equal(first.Log, second.Log) || len(first.Log) < 200 {
		t.Errorf("two runs of one seed differ, or did nothing:\n%s\n\n%s", strings.Join(first.Log, "\n"), strings.Join(second.Log, "\n"))
	}
}

// liar is a store that breaks one promise.
type liar struct {
	driver.Store
	lie   string
	calls int
}

func (l *liar) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if l.calls++; l.lie == "acknowledges what it does not store" && l.calls%5 == 0 {
		out := make([]sojourn.Enqueued, len(jobs))
		for i, j := range jobs {
			out[i] = sojourn.Enqueued{ID: j.ID, State: sojourn.Ready}
			if j.Delay > 0 {
				out[i].State = sojourn.Scheduled
			}
		}
		return out, nil
	}
	return l.Store.Enqueue(ctx, jobs, partial)
}

func (l *liar) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if l.lie == "forgets the number of a claim" {
		r.Number = 0
	}
	return l.Store.Claim(ctx, r)
}

func (l *liar) Finish(ctx context.Context, os []sojourn.Outcome) ([]driver.Finished, error) {
	fs, err := l.Store.Finish(ctx, os)
	if err == nil && l.lie == "calls its own report lost" && fs[0].Status == driver.FinishRepeated {
		fs[0] = driver.Finished{Status: driver.FinishLost, Reason: driver.LostEnded, State: fs[0].State}
	}
	return fs, err
}

func (l *liar) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	if l.lie == "extends nothing" {
		return make([]driver.Extended, len(leases)), nil
	}
	return l.Store.Extend(ctx, leases)
}

func (l *liar) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	if l.lie == "forgets message ids" {
		l.calls++
		rs = slices.Clone(rs)
		rs[0].MessageID += strings.Repeat("'", l.calls)
	}
	return l.Store.Respond(ctx, rs)
}

func (l *liar) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	if l.lie == "sweeps nothing" {
		return driver.Swept{}, nil
	}
	return l.Store.Sweep(ctx, limit)
}

// The simulation can fail: it finds each lie, and a short way to it.
func TestRunFindsLies(t *testing.T) {
	for _, lie := range []string{"acknowledges what it does not store", "forgets the number of a claim", "calls its own report lost",
		"extends nothing", "forgets message ids", "sweeps nothing"} {
		t.Run(lie, func(t *testing.T) {
			open := inMemory(t, func(s driver.Store) driver.Store { return &liar{Store: s, lie: lie} })
			for seed := range uint64(10) {
				if Run(open, seed, upTo(300)).Err == nil {
					continue
				}
				short, r := Shrink(open, seed, upTo(300), 60)
				t.Logf("seed %d, with %d operations: %v\n%s", seed, len(short), r.Err, strings.Join(r.Log, "\n"))
				if len(short) > 40 {
					t.Errorf("the shortest way that was found has %d operations", len(short))
				}
				return
			}
			t.Error("ten seeds have not noticed")
		})
	}
}
