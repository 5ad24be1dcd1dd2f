package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestLaneSharesCommits: requests that arrive during a commit go into the next one together,
// finishes first, regardless of the order of arrival (spec:B1, spec:B5).
func TestLaneSharesCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups [][]string
		release := make(chan struct{})
		b := New(1, 100, func(group []*Item[string]) {
			var names []string
			for _, r := range group {
				names = append(names, r.Call)
			}
			groups = append(groups, names)
			<-release
		})
		var wg sync.WaitGroup
		submit := func(c Class, name string) {
			wg.Go(func() {
				if err := b.Do(context.Background(), c, 1, name); err != nil {
					t.Error(name, err)
				}
			})
			synctest.Wait()
		}
		submit(Enqueue, "first")
		submit(Enqueue, "enqueue")
		submit(Claim, "claim")
		submit(Finish, "finish")
		close(release)
		wg.Wait()
		if got := fmt.Sprint(groups); got != "[[first] [finish claim enqueue]]" {
			t.Error(got)
		}
	})
}

// TestLaneCoalesces: callers in a closed loop share each transaction, instead of half of them
// every other one. A caller that does not come back delays no other.
func TestLaneCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, calls = 8, 50
		groups := 0
		b := New(1, 100, func(group []*Item[int]) {
			groups++
			time.Sleep(time.Millisecond)
		})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range calls * (i + 1) / callers { // they leave one after the other
					if err := b.Do(context.Background(), Enqueue, 1, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if groups > calls+callers {
			t.Errorf("%d transactions for the %d calls of the most diligent caller", groups, calls)
		}
	})
}

// TestLaneBoundsGroups: a group ends before maxRows is exceeded, and one request larger than it
// goes alone.
func TestLaneBoundsGroups(t *testing.T) {
	b := New[int](1, 10, nil)
	for _, rows := range []int{4, 6, 1, 50, 3} {
		b.queues[Enqueue] = append(b.queues[Enqueue], &Item[int]{Rows: rows})
	}
	b.queues[Finish] = append(b.queues[Finish], &Item[int]{Rows: 5})
	var sizes [][]int
	for group := b.take(); len(group) > 0; group = b.take() {
		var rows []int
		for _, r := range group {
			rows = append(rows, r.Rows)
		}
		sizes = append(sizes, rows)
	}
	if got := fmt.Sprint(sizes); got != "[[5 4] [6 1] [50] [3]]" {
		t.Error(got)
	}
}

// TestLaneEnds: a caller whose context ends is told that the outcome is unknown, and the work
// continues; after close all calls are refused.
func TestLaneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, committed := make(chan struct{}), 0
		b := New(1, 10, func(group []*Item[int]) { <-release; committed += len(group) })
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error)
		go func() { result <- b.Do(ctx, Finish, 1, 0) }()
		synctest.Wait()
		cancel()
		if err := <-result; sojourn.ErrorCode(err) != sojourn.CodeUnknown || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := b.Do(ctx, Finish, 1, 0); !errors.Is(err, context.Canceled) || sojourn.ErrorCode(err) != "" {
			t.Error("a context that had ended before:", err)
		}
		close(release)
		b.Close()
		if committed != 1 {
			t.Error("committed", committed)
		}
		if err := b.Do(context.Background(), Finish, 1, 0); !errors.Is(err, sojourn.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestLaneRunsInParallelForManyRows: during a transaction another one begins for minParallelRows
// rows at once, and for fewer when the first takes longer than slowAfter.
func TestLaneRunsInParallelForManyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		release := make(chan struct{})
		b := New(3, 1000, func(group []*Item[int]) {
			begun.add(len(group))
			<-release
		})
		var wg sync.WaitGroup
		submit := func(n int) { submit(&wg, b, Enqueue, n) }
		submit(1)
		submit(minParallelRows - 1)
		begun.are(t, 1)
		submit(1)
		begun.are(t, 1, minParallelRows)
		submit(2)
		begun.are(t, 1, minParallelRows)
		time.Sleep(slowAfter)
		synctest.Wait()
		begun.are(t, 1, minParallelRows, 2)
		close(release)
		wg.Wait()
		b.Close()
	})
}

// TestLaneRunsInParallelForFewerFinishes: if neither claims nor enqueues wait,
// minParallelRowsEnding rows justify a transaction.
func TestLaneRunsInParallelForFewerFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		release := make(chan struct{})
		b := New(3, 1000, func(group []*Item[int]) {
			begun.add(len(group))
			<-release
		})
		var wg sync.WaitGroup
		answers := func(n int) { submit(&wg, b, Finish, n) }
		answers(1)
		answers(minParallelRowsEnding - 1)
		begun.are(t, 1)
		answers(1)
		begun.are(t, 1, minParallelRowsEnding)
		submit(&wg, b, Enqueue, 1)
		answers(minParallelRowsEnding)
		begun.are(t, 1, minParallelRowsEnding)
		close(release)
		wg.Wait()
		b.Close()
	})
}

// TestLaneLeavesFewRowsToOtherRunner: a runner whose transaction is over leaves fewer rows than
// minParallelRows to the other runner at work.
func TestLaneLeavesFewRowsToOtherRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		releases := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		b := New(3, 1000, func(group []*Item[int]) { <-releases[begun.add(len(group))] })
		var wg sync.WaitGroup
		submit := func(n int) { submit(&wg, b, Enqueue, n) }
		submit(1)
		submit(minParallelRows)
		submit(2)
		close(releases[1])
		time.Sleep(slowAfter / 2)
		synctest.Wait()
		begun.are(t, 1, minParallelRows)
		close(releases[0])
		synctest.Wait()
		begun.are(t, 1, minParallelRows, 2)
		close(releases[2])
		wg.Wait()
		b.Close()
	})
}

// submit makes n requests of a row each, and returns when all wait.
func submit(wg *sync.WaitGroup, b *Lane[int], c Class, n int) {
	for range n {
		wg.Go(func() { b.Do(context.Background(), c, 1, 0) })
	}
	synctest.Wait()
}

// groupSizes are the sizes of the groups that have begun.
type groupSizes struct {
	mu    sync.Mutex
	sizes []int
}

// add returns the group's number, from 0.
func (g *groupSizes) add(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sizes = append(g.sizes, n)
	return len(g.sizes) - 1
}

func (g *groupSizes) are(t *testing.T, want ...int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.sizes, want) {
		t.Errorf("groups of %v requests have begun, not %v", g.sizes, want)
	}
}
