package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// otherProcess opens the file of a store once more, as another process does.
func otherProcess(t *testing.T, path string) *sojourn.Client {
	t.Helper()
	c, err := sqlite.Open(path, sqlite.Relaxed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// spec:O9: a queue that another process makes is taken up within a second, by an idle worker and by
// one that always has other jobs, directly and over HTTP; an excluded one never.
func TestPatternTakesUpNewQueues(t *testing.T) {
	for _, far := range []bool{false, true} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("http=%v,busy=%v", far, busy), func(t *testing.T) {
				path := t.TempDir() + "/jobs.db"
				other := otherProcess(t, path)
				c := otherProcess(t, path)
				if far {
					c = dialled(t, c)
				}
				took := make(chan time.Time, 1)
				var ran atomic.Int64
				w := worker.New(c, worker.Options{Concurrency: 1, Queues: []string{"payments-*", "!payments-test"}, Order: worker.RoundRobin})
				worker.Handle(w, number, func(ctx context.Context, j *sojourn.Job, _ int) error {
					switch j.Queue {
					case "payments-new":
						took <- time.Now()
					case "payments-test":
						t.Error("a job of an excluded queue ran")
					}
					if ran.Add(1); busy && j.Queue == "payments-old" { // there is always another one
						_, err := c.Enqueue(ctx, number.New(1, sojourn.Queue("payments-old")))
						return err
					}
					return nil
				})
				enqueue(t, other, number.New(1, sojourn.Queue("payments-old")), number.New(1, sojourn.Queue("payments-old")))
				start(t, w)
				least := map[bool]int64{false: 2, true: 20}[busy]
				for end := time.Now().Add(patience); ran.Load() < least && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				enqueue(t, other, number.New(1, sojourn.Queue("payments-test")), number.New(1, sojourn.Queue("payments-new")))
				stored := time.Now()
				select {
				case at := <-took:
					if d := at.Sub(stored); d > time.Second && !testing.Short() {
						t.Errorf("the job of a new queue started after %v", d)
					}
				case <-time.After(patience):
					t.Error("the job of a new queue has not started")
				}
			})
		}
	}
}

// spec:O9: patterns in the orders of queues.
func TestPatternOrders(t *testing.T) {
	for _, test := range []struct {
		o    worker.Options
		n    int // times 5 jobs of a, 2 of b and 3 of c
		want func(got []string) bool
	}{
		{worker.Options{Queues: []string{"c*", "*"}}, 1, func(got []string) bool {
			return strings.Join(got[:3], " ") == "c c c"
		}},
		{worker.Options{Queues: []string{"c*", "*", "!b"}, Order: worker.RoundRobin}, 1, func(got []string) bool {
			return strings.Join(got, " ") == "c a c a c a a a"
		}},
		{worker.Options{Shares: map[string]int{"c*": 2, "a": 1}}, 1, func(got []string) bool {
			return strings.Count(strings.Join(got[:5], ""), "c") == 3
		}},
		{worker.Options{Queues: []string{"a", "b", "c"}, Order: worker.Shuffled}, 5, func(got []string) bool {
			return !slices.IsSorted(got) // sorted by chance once in 10^15
		}},
	} {
		c := open(t)
		for queue, n := range map[string]int{"a": 5, "b": 2, "c": 3} {
			for range n * test.n {
				enqueue(t, c, number.New(1, sojourn.Queue(queue)))
			}
		}
		var got []string
		test.o.Concurrency = 1
		w := worker.New(c, test.o)
		worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, _ int) error { got = append(got, j.Queue); return nil })
		for {
			more, err := w.RunOnce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
		}
		if !test.want(got) {
			t.Errorf("%+v: %v", test.o.Queues, got)
		}
	}
}

// spec:O9: the queues of a worker change while it waits for jobs.
func TestSetQueues(t *testing.T) {
	c := open(t)
	took := make(chan string, 1)
	w := worker.New(c, worker.Options{Queues: []string{"a"}})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, _ int) error { took <- j.Queue; return nil })
	ran := func(want string) {
		t.Helper()
		select {
		case got := <-took:
			if got != want {
				t.Errorf("a job of queue %s ran, want %s", got, want)
			}
		case <-time.After(patience):
			t.Errorf("no job of queue %s ran", want)
		}
	}
	start(t, w)
	for i, queues := range [][]string{{"a"}, {"b"}, {"c*", "!c1"}, {"a", "b"}} {
		if err := w.SetQueues(queues...); err != nil {
			t.Fatal(err)
		}
		queue := []string{"a", "b", "c2", "a"}[i]
		began := time.Now()
		enqueue(t, c, number.New(1, sojourn.Queue(queue)))
		ran(queue)
		if d := time.Since(began); d > 5*time.Second && !testing.Short() {
			t.Errorf("the new queues were used after %v", d) // a waiting claim is sent again
		}
	}
	for _, bad := range [][]string{{}, {"no spaces"}, {"!a"}, {"a", "a"}, make([]string, 257)} {
		if err := w.SetQueues(bad...); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	shares := worker.New(c, worker.Options{Shares: map[string]int{"a": 1}})
	if err := shares.SetQueues("b"); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("of a worker with shares: %v", err)
	}
}
