package sqlite

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// looker is a DB whose test can delay its verdicts on owners.
type looker struct {
	*DB
	judged func() // between the verdict and the action
}

func (l looker) EndDead(ctx context.Context, end func(string) (bool, error)) error {
	err := l.DB.EndDead(ctx, func(owner string) (bool, error) {
		l.judged()
		return end(owner)
	})
	l.judged()
	return err
}

// claimHundred claims 100 jobs with leases of a minute, as a worker of this store.
func claimHundred(ctx context.Context, c *sojourn.Client) ([]driver.Claimed, error) {
	owner := c.Store().(driver.Owner).OwnerID()
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: owner + ".w", Queues: []string{"default"}, Kinds: []string{"k"},
		Max: 100, Capacity: 100, Lease: time.Minute})
	if err == nil && len(jobs) != 100 {
		err = fmt.Errorf("claimed %d jobs", len(jobs))
	}
	return jobs, err
}

// stillHeld reports leases that another store has ended.
func stillHeld(t *testing.T, c *sojourn.Client, jobs []driver.Claimed) {
	t.Helper()
	var outcomes []sojourn.Outcome
	for _, j := range jobs {
		outcomes = append(outcomes, sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted})
	}
	done, err := driver.Of(c).Finish(context.Background(), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, f := range done {
		if f.Status != driver.FinishApplied {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d leases of a living process were ended", lost, len(jobs))
	}
}

// TestOwnerIsBornLocked: spec:L8. A store looks for dead owners while another one is being opened,
// between the creation of its owner's file and the lock. It acts on that only after the other one
// has claimed: the leases must stand.
func TestOwnerIsBornLocked(t *testing.T) {
	path := fileTest(t)
	d := openTest(t, path)
	judged, claimed := make(chan bool), make(chan bool)
	var once sync.Once
	l := looker{d, func() { once.Do(func() { close(judged); <-claimed }) }}
	if err := migration.Up(t.Context(), d, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(t.Context(), l, sqlstore.Config{Prefix: defaultPrefix, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sojourn.NewClient(s).EnqueueAll(t.Context(), batchOf(100)...); err != nil {
		t.Fatal(err)
	}
	swept := make(chan error)
	born, err := Open(path, func(o *options) {
		o.created = func() {
			o.created = nil
			go func() { _, err := s.Sweep(context.Background(), 1000); swept <- err }()
			<-judged
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { born.Close() })
	jobs, err := claimHundred(t.Context(), born)
	close(claimed)
	if err := <-swept; err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stillHeld(t, born, jobs)
}

// TestOwnersBesideSweeps: the same without a hook: stores are opened, claim 100 jobs and are
// closed, while others sweep all the time.
func TestOwnersBesideSweeps(t *testing.T) {
	path := fileTest(t)
	stop := make(chan bool)
	var sweepers sync.WaitGroup
	for range 3 {
		c := openSynced(t, path, nil, Relaxed())
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := driver.Of(c).Sweep(context.Background(), 1000); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer sweepers.Wait()
	defer close(stop)
	for range 30 {
		c := openSynced(t, path, nil, Relaxed())
		if _, err := c.EnqueueAll(t.Context(), batchOf(100)...); err != nil {
			t.Fatal(err)
		}
		jobs, err := claimHundred(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		stillHeld(t, c, jobs)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
