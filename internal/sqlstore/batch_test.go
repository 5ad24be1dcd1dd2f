package sqlstore

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
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

var (
	stepA = &step{name: "a"}
	stepB = &step{name: "b"}
)

// TestBatcherSharesCommits: requests that arrive during a commit go into the next one together,
// finishes first, regardless of the order of arrival (spec:B1, spec:B5).
func TestBatcherSharesCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups [][]string
		release := make(chan struct{})
		b := newBatcher(1, 100, func(group []*request) {
			var names []string
			for _, r := range group {
				names = append(names, r.in.(string))
				r.out = r.in
			}
			groups = append(groups, names)
			<-release
		})
		var wg sync.WaitGroup
		submit := func(c class, name string) {
			wg.Go(func() {
				if out, err := b.do(context.Background(), c, stepA, 1, name); out != name || err != nil {
					t.Error(name, out, err)
				}
			})
			synctest.Wait()
		}
		submit(classEnqueue, "first")
		submit(classEnqueue, "enqueue")
		submit(classClaim, "claim")
		submit(classFinish, "finish")
		close(release)
		wg.Wait()
		if got := fmt.Sprint(groups); got != "[[first] [finish claim enqueue]]" {
			t.Error(got)
		}
	})
}

// TestBatcherGathers: callers in a closed loop share each transaction, instead of half of them
// every other one. A caller that does not come back delays no other.
func TestBatcherGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, calls = 8, 50
		groups := 0
		b := newBatcher(1, 100, func(group []*request) {
			groups++
			time.Sleep(time.Millisecond)
			for _, r := range group {
				r.out = r.in
			}
		})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range calls * (i + 1) / callers { // they leave one after the other
					if _, err := b.do(context.Background(), classEnqueue, stepA, 1, 0); err != nil {
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

// TestBatcherBoundsGroups: a group ends before maxRows is exceeded, and one request larger than it
// goes alone.
func TestBatcherBoundsGroups(t *testing.T) {
	b := newBatcher(1, 10, nil)
	for _, rows := range []int{4, 6, 1, 50, 3} {
		b.queues[classEnqueue] = append(b.queues[classEnqueue], &request{rows: rows})
	}
	b.queues[classFinish] = append(b.queues[classFinish], &request{rows: 5})
	var sizes [][]int
	for group := b.take(); len(group) > 0; group = b.take() {
		var rows []int
		for _, r := range group {
			rows = append(rows, r.rows)
		}
		sizes = append(sizes, rows)
	}
	if got := fmt.Sprint(sizes); got != "[[5 4] [6 1] [50] [3]]" {
		t.Error(got)
	}
}

// TestBatcherEnds: a caller whose context ends is told that the outcome is unknown, and the work
// continues; after close all calls are refused.
func TestBatcherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, committed := make(chan struct{}), 0
		b := newBatcher(1, 10, func(group []*request) { <-release; committed += len(group) })
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error)
		go func() { _, err := b.do(ctx, classFinish, stepA, 1, nil); result <- err }()
		synctest.Wait()
		cancel()
		if err := <-result; sojourn.ErrorCode(err) != sojourn.CodeUnknown || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := b.do(ctx, classFinish, stepA, 1, nil); !errors.Is(err, context.Canceled) || sojourn.ErrorCode(err) != "" {
			t.Error("a context that had ended before:", err)
		}
		close(release)
		b.close()
		if committed != 1 {
			t.Error("committed", committed)
		}
		if _, err := b.do(context.Background(), classFinish, stepA, 1, nil); !errors.Is(err, sojourn.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestPartitionKeepsOrder(t *testing.T) {
	group := []*request{{step: stepA, in: 1}, {step: stepB, in: 2}, {step: stepA, in: 3}}
	same, rest := partition(group, stepA)
	ins := func(rs []*request) (in []any) {
		for _, r := range rs {
			in = append(in, r.in)
		}
		return in
	}
	if got := fmt.Sprint(ins(same), ins(rest)); got != "[1 3] [2]" {
		t.Error(got)
	}
}

// TestChoose is the order over several queues: spec:O8 strictly in order, spec:O9 in rounds,
// shares, and a job that does not fit is skipped (spec:W9).
func TestChoose(t *testing.T) {
	line := func(name string, weights ...int64) (cs []candidate) {
		for i, w := range weights {
			cs = append(cs, candidate{id: int64(name[0])*100 + int64(i), weight: w})
		}
		return cs
	}
	letters := func(cs []candidate) (s string) {
		for _, c := range cs {
			s += string(rune(c.id / 100))
		}
		return s
	}
	for _, c := range []struct {
		name  string
		lines [][]candidate
		r     driver.ClaimRequest
		want  string
	}{
		{"ordered", [][]candidate{line("C", 1, 1, 1), line("B", 1, 1), line("A", 1, 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"C", "B", "A"}, Max: 100, Capacity: 100}, "CCCBBAAAAA"},
		{"round robin", [][]candidate{line("C", 1, 1, 1), line("B", 1, 1), line("A", 1, 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"C", "B", "A"}, Max: 100, Capacity: 100, Share: map[string]int{"A": 1}}, "CBACBACAAA"},
		{"weighted", [][]candidate{line("A", 1, 1, 1, 1, 1, 1), line("B", 1, 1, 1, 1)},
			driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 8, Capacity: 100, Share: map[string]int{"A": 3}}, "AAABAAAB"},
		{"max", [][]candidate{line("A", 1, 1, 1)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 2, Capacity: 100}, "AA"},
		{"passed over", [][]candidate{line("A", 5, 1), line("B", 2)}, driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 3}, "AB"},
		{"weight 0 always fits", [][]candidate{line("A", 3, 0, 1)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 9, Capacity: 3}, "AA"},
		{"kept room", [][]candidate{line("A", 1, 5, 1), line("B", 2)}, driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 3, Reserve: 1}, "A"},
		{"kept room in turn", [][]candidate{line("A", 1, 1, 1), line("B", 4, 1)},
			driver.ClaimRequest{Queues: []string{"A", "B"}, Max: 9, Capacity: 4, Reserve: 1, Share: map[string]int{"A": 2, "B": 1}}, "AA"},
		{"behind what fills the room", [][]candidate{line("A", 1, 1, 3)}, driver.ClaimRequest{Queues: []string{"A"}, Max: 2, Capacity: 3, Reserve: 1}, "AA"},
		{"nothing", [][]candidate{nil}, driver.ClaimRequest{Queues: []string{"A"}, Max: 9, Capacity: 3}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := choose(c.lines, c.r, func(r driver.ClaimRequest, _ int64) (bool, error) { return r.Reserve > 0, nil })
			if err != nil || letters(got) != c.want {
				t.Errorf("got %s, %v, want %s", letters(got), err, c.want)
			}
		})
	}
	if got := slices.MinFunc([]candidate{{id: 2, r1: 1, r2: 5}, {id: 1, r1: 1, r2: 6}, {id: 3, r1: 1, r2: 5}}, less); got.id != 2 {
		t.Error("first in order:", got)
	}
}

// TestBatcherFor: large finishes use runners of their own, and so do claims of workers that have
// met gates.
func TestBatcherFor(t *testing.T) {
	s := &Store{batch: newBatcher(1, 1, nil), ends: newBatcher(1, 1, nil)}
	s.cfg.Apart = 2
	s.gated.put("met", true)
	s.gated.put("met no more", false)
	for _, c := range []struct {
		step *step
		rows int
		in   any
		want *batcher
	}{
		{stepEnqueue, 2, enqueueAsk{}, s.batch}, {stepRespond, 2, nil, s.batch}, {stepFinish, 2, finishAsk{}, s.ends}, {stepFinish, 1, finishAsk{}, s.batch},
		{stepClaim, 2, driver.ClaimRequest{Worker: "new"}, s.batch}, {stepClaim, 2, driver.ClaimRequest{Worker: "met"}, s.ends},
		{stepClaim, 2, driver.ClaimRequest{Worker: "met no more"}, s.batch},
	} {
		if s.batcherFor(c.step, c.rows, c.in) != c.want {
			t.Errorf("%s of %d rows, %+v, has the wrong runners", c.step.name, c.rows, c.in)
		}
	}
}

// dialectDB is a DB of which only the dialect matters.
type dialectDB struct {
	sqldb.DB
	dialect sqldb.Dialect
}

func (d dialectDB) Dialect() sqldb.Dialect { return d.dialect }

// TestClaimsGoApart: a claim from a backlog runs concurrently with other transactions, if possible,
// and with one more such claim; a claim that waits for jobs, or met gates, does not.
func TestClaimsGoApart(t *testing.T) {
	for _, concurrent := range []bool{true, false} {
		s := &Store{db: dialectDB{dialect: sqldb.Dialect{Concurrent: concurrent}}}
		for worker, filled := range map[string]bool{"filled": true, "not": false, "gated": true} {
			s.filled.put(worker, filled)
			s.gated.put(worker, worker == "gated")
		}
		apart := func(worker string) bool { return s.goesApart(driver.ClaimRequest{Worker: worker}) }
		for _, worker := range []string{"not", "gated", "new"} {
			if apart(worker) {
				t.Errorf("concurrent %v: the claim of %s goes apart", concurrent, worker)
			}
		}
		for n := range int32(apartMost) {
			if apart("filled") != concurrent || concurrent && s.apart.Load() != n+1 {
				t.Errorf("concurrent %v: claim %d from a backlog", concurrent, n+1)
			}
		}
		if apart("filled") || concurrent && s.apart.Load() != apartMost {
			t.Errorf("concurrent %v: %d claims go apart", concurrent, s.apart.Load())
		}
		if s.apart.Add(-1); apart("filled") != concurrent {
			t.Errorf("concurrent %v: no claim goes apart after one has ended", concurrent)
		}
	}
}

// TestBatcherWaitsForCompany: during a transaction another one begins for company rows at once, and
// for fewer rows when the first takes longer than patience.
func TestBatcherWaitsForCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		release := make(chan struct{})
		b := newBatcher(3, 1000, func(group []*request) {
			begun.add(len(group))
			<-release
		})
		var wg sync.WaitGroup
		submit := func(n int) { submit(&wg, b, classEnqueue, n) }
		submit(1)
		submit(company - 1)
		begun.are(t, 1)
		submit(1)
		begun.are(t, 1, company)
		submit(2)
		begun.are(t, 1, company)
		time.Sleep(patience)
		synctest.Wait()
		begun.are(t, 1, company, 2)
		close(release)
		wg.Wait()
		b.close()
	})
}

// TestBatcherBeginsEarlierForAnswers: if neither claims nor enqueues wait, fewer rows justify a
// transaction.
func TestBatcherBeginsEarlierForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		release := make(chan struct{})
		b := newBatcher(3, 1000, func(group []*request) {
			begun.add(len(group))
			<-release
		})
		var wg sync.WaitGroup
		answers := func(n int) { submit(&wg, b, classFinish, n) }
		answers(1)
		answers(fewer - 1)
		begun.are(t, 1)
		answers(1)
		begun.are(t, 1, fewer)
		submit(&wg, b, classEnqueue, 1)
		answers(fewer)
		begun.are(t, 1, fewer)
		close(release)
		wg.Wait()
		b.close()
	})
}

// TestBatcherLeavesCrumbs: a runner whose transaction is over leaves fewer than company rows to the
// other runner at work.
func TestBatcherLeavesCrumbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun groupSizes
		releases := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		b := newBatcher(3, 1000, func(group []*request) { <-releases[begun.add(len(group))] })
		var wg sync.WaitGroup
		submit := func(n int) { submit(&wg, b, classEnqueue, n) }
		submit(1)
		submit(company)
		submit(2)
		close(releases[1])
		time.Sleep(patience / 2)
		synctest.Wait()
		begun.are(t, 1, company)
		close(releases[0])
		synctest.Wait()
		begun.are(t, 1, company, 2)
		close(releases[2])
		wg.Wait()
		b.close()
	})
}

// submit makes n requests of a row each, and returns when all wait.
func submit(wg *sync.WaitGroup, b *batcher, c class, n int) {
	for range n {
		wg.Go(func() { b.do(context.Background(), c, stepA, 1, nil) })
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
