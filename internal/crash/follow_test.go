package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/store/event"
	"github.com/sojourn-queue/sojourn/worker"
)

// followed are the events that a follower has got, by job and each once.
type followed struct {
	mu   sync.Mutex // guards the fields below
	seen map[event.Position]bool
	jobs map[sojourn.ID][]event.Event
	gaps int
}

func (f *followed) add(e event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Type == event.Gap {
		f.gaps++
		return
	}
	if !f.seen[e.Position] {
		f.seen[e.Position] = true
		f.jobs[e.Job] = append(f.jobs[e.Job], e)
	}
}

// completed counts the jobs whose last event is their end.
func (f *followed) completed(jobs map[sojourn.ID]bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range jobs {
		if es := f.jobs[id]; len(es) > 0 && es[len(es)-1].State == sojourn.Completed {
			n++
		}
	}
	return n
}

// broken counts jobs whose events are no chain from their creation on: one is missing, or they came
// in another order.
func (f *followed) broken(t *testing.T) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, es := range f.jobs {
		state := sojourn.State(0)
		for i, e := range es {
			if e.From != state {
				t.Logf("job %d: event %d of %d leads from %v to %v, after %v", id, i+1, len(es), e.From, e.State, state)
				n++
				break
			}
			state = e.State
		}
	}
	return n
}

// TestFollowerThroughKills kills the server under a follower, a worker and producers, all over
// HTTP, and starts it again. The follower gets each transition, those of a job in their order.
func TestFollowerThroughKills(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what builds the command")
	}
	cycles, err := strconv.Atoi(os.Getenv("SOJOURN_CRASH_SERVE_CYCLES"))
	if err != nil {
		cycles = 5
	}
	s, l := newSite(t, filepath.Join(t.TempDir(), "jobs.db")), newLedger()
	s.start()
	dial := func() *sojourn.Client {
		c, err := httpapi.Dial(s.url(), httpapi.Token(s.token))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	events := event.Of(dial())
	if _, err := events.Follow(ctx, "all", event.Filter{Kind: remote.Name}); err != nil {
		t.Fatal(err)
	}
	got := &followed{seen: map[event.Position]bool{}, jobs: map[sojourn.ID][]event.Event{}}
	var group, producers sync.WaitGroup
	group.Go(func() {
		for e, err := range events.Tail(ctx, "all") {
			if err != nil && ctx.Err() == nil {
				t.Errorf("the follower ended: %v", err)
			}
			if err != nil {
				return
			}
			got.add(e)
		}
	})
	w := worker.New(dial(), worker.Options{Concurrency: 4})
	worker.Handle(w, remote, func(context.Context, *sojourn.Job, int) error { return nil })
	group.Go(func() { _ = w.Run(ctx) })
	producing, stop := context.WithCancel(ctx)
	for range 4 {
		producers.Go(func() { s.produceRemotely(producing, l) })
	}
	for range cycles {
		time.Sleep(time.Duration(100+rand.IntN(600)) * time.Millisecond) // until the next kill
		s.kill()
		s.start()
	}
	stop()
	producers.Wait()
	s.drain()
	for deadline := time.Now().Add(drainWithin); got.completed(l.acked) < len(l.acked) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	end()
	group.Wait()
	s.kill()
	n, broken := got.completed(l.acked), got.broken(t)
	t.Logf("%d kills: %d jobs acknowledged, %d events; %d jobs without their end, %d with a broken chain, %d gaps", cycles, len(l.acked), len(got.seen), len(l.acked)-n, broken, got.gaps)
	if n < len(l.acked) || broken > 0 || got.gaps > 0 {
		t.Error("the follower has missed something")
	}
	if len(l.acked) < 5*cycles {
		t.Errorf("only %d jobs were acknowledged: the test shows nothing", len(l.acked))
	}
}
