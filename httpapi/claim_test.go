package httpapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// claimer sends claims of one job for the worker w.
type claimer struct {
	*testing.T
	far
}

func newClaimer(t *testing.T) claimer {
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	return claimer{t, serving(t, c)}
}

func (c claimer) claim(ctx context.Context, number int64, wait time.Duration) ([]driver.Claimed, error) {
	return c.Claim(ctx, driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Wait: wait})
}

// begin starts a claim and returns when it waits at the server.
func (c claimer) begin(ctx context.Context, number int64) (over chan error) {
	c.Helper()
	over = make(chan error, 1)
	go func() {
		_, err := c.claim(ctx, number, sojourn.MaxWait)
		over <- err
	}()
	for late := time.After(patience); ; {
		shown, err := c.behind.Workers(c.Context(), "", 0)
		if err != nil {
			c.Fatal(err)
		}
		if len(shown) == 1 && shown[0].Waiting {
			return over
		}
		select {
		case <-time.After(100 * time.Microsecond):
		case <-late:
			c.Fatal("the claim does not wait at the server")
		}
	}
}

// TestRepeatedClaimEndsTheFirst: the next claim of a worker ends the one that waits, whose caller
// is gone though a proxy may not say so.
func TestRepeatedClaimEndsTheFirst(t *testing.T) {
	c := newClaimer(t)
	for n, next := range []int64{0, 1, 0} {
		number := int64(10 * (n + 1))
		over := c.begin(t.Context(), number)
		if jobs, err := c.claim(t.Context(), number-1, 0); err != nil || len(jobs) > 0 || len(over) > 0 {
			t.Errorf("a claim with an older number: %v %v, and %d claims are over", jobs, err, len(over))
		}
		if jobs, err := c.claim(t.Context(), number+next, 0); err != nil || len(jobs) > 0 {
			t.Errorf("%v %v", jobs, err)
		}
		select {
		case err := <-over:
			if sojourn.ErrorCode(err) != sojourn.CodeConflict {
				t.Errorf("the claim that was ended answers %v", err)
			}
		case <-time.After(patience):
			t.Fatalf("a claim goes on waiting after its worker has asked with its number and %d", next)
		}
	}
}

// TestRepeatedClaimKeepsItsJobs: rules:A3. A job that becomes ready while a claim is abandoned and
// repeated goes to the repeat and stays there; the first call releases its jobs before that.
func TestRepeatedClaimKeepsItsJobs(t *testing.T) {
	c := newClaimer(t)
	client := sojourn.NewClient(c.behind)
	number := int64(0)
	for turn := range 400 {
		number++
		ctx, cancel := context.WithCancel(t.Context())
		over := c.begin(ctx, number)
		stored := make(chan error, 1)
		go func() {
			_, err := client.Enqueue(t.Context(), sojourn.NewJob("k", nil))
			stored <- err
		}()
		time.Sleep(time.Duration(turn) * time.Microsecond) // so that the claim is given up before the job comes, just then, and after it
		cancel()
		<-over
		got, err := c.claim(t.Context(), number, 0)
		for late := time.Now().Add(patience); err == nil && len(got) == 0 && time.Now().Before(late); {
			number++ // the job came after the repeat
			got, err = c.claim(t.Context(), number, 0)
		}
		if err != nil || len(got) == 0 {
			t.Fatalf("turn %d: nobody gets the job: %v", turn, err)
		}
		done, err := c.Finish(t.Context(), []sojourn.Outcome{{Lease: got[0].Lease, Type: sojourn.OutcomeCompleted}})
		if err != nil || done[0].Status != driver.FinishApplied {
			t.Fatalf("turn %d: the job was taken back: %+v %v", turn, done, err)
		}
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
}
