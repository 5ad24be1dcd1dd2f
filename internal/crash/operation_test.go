package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// childOperates, with a number of seconds behind it, starts an operation that redrives the failed
// jobs, or finds it started, and carries it out. Its clock is that much ahead, so it does not wait
// for the lease that the process before has on the operation.
const childOperates = "operates "

const (
	operationID = "redrive-all"
	doomed      = "doomed" // a kind
	failedJobs  = 2000
	causes      = 20
	perSlice    = 20 // jobs; a process makes up for 10 slices at most, and does one a second then
)

// operateAll carries the operation out, one slice after the other.
func operateAll(ctx context.Context, address, ahead string) error {
	seconds, err := strconv.Atoi(ahead)
	if err != nil {
		return err
	}
	clock := func() time.Time { return time.Now().Add(time.Duration(seconds) * time.Second) }
	var c *sojourn.Client
	if onServer(address) {
		c, err = postgres.Open(address, postgres.Clock(clock))
	} else {
		c, err = sqlite.Open(address, sqlite.Clock(clock))
	}
	if err != nil {
		return err
	}
	defer c.Close()
	say("opened")
	ops := operation.Of(c)
	if _, err := ops.Start(ctx, operation.Spec{ID: operationID, Rate: perSlice, Edit: sojourn.Edit{Action: sojourn.EditRedrive, By: "ann"},
		Filter: sojourn.Filter{Kind: doomed, States: []sojourn.State{sojourn.Failed}}}); err != nil {
		return err
	}
	_, err = ops.Wait(ctx, operationID, nil)
	return err
}

// failJobs stores jobs that have failed with a few causes, each with an id of its own in its text.
func failJobs(t *testing.T, c *sojourn.Client) {
	t.Helper()
	for made := 0; made < failedJobs; made += sojourn.MaxBatch {
		jobs := make([]*sojourn.Job, min(sojourn.MaxBatch, failedJobs-made))
		for i := range jobs {
			jobs[i] = sojourn.NewJob(doomed, nil)
		}
		if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
			t.Fatal(err)
		}
	}
	for {
		claimed, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{sojourn.DefaultQueue}, Kinds: []string{doomed},
			Max: sojourn.MaxBatch, Capacity: sojourn.MaxBatch})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			return
		}
		out := make([]sojourn.Outcome, len(claimed))
		for i, j := range claimed {
			text := fmt.Sprintf("gateway %c refused order %d", 'a'+int(j.Job.ID)%causes, j.Job.ID)
			out[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeError, Reason: "refused", Text: text, Verdict: sojourn.Verdict{Final: true}}
		}
		done, err := driver.Of(c).Finish(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range done {
			if d.Status != driver.FinishApplied {
				t.Fatal(d.Status, d.Err)
			}
		}
	}
}

// killOperation kills the process that carries out an operation until the operation has ended
// (inv:A1). Each job is redriven once.
func killOperation(t *testing.T, address string) {
	c, err := open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	failJobs(t, c)
	groups := 0
	for g, err := range failure.Of(c).All(t.Context(), failure.Query{}) {
		if groups++; err != nil || g.Failed != failedJobs/causes || g.Open != failedJobs/causes {
			t.Fatalf("%+v %v", g, err)
		}
	}
	if groups != causes {
		t.Fatalf("%d failure groups, want %d", groups, causes)
	}
	// A process that is killed before its first slice brings no progress: the next lives longer.
	life := 50 * time.Millisecond
	l, kills, amid := newLedger(), 0, map[int64]bool{}
	for ; kills < 200; kills++ {
		o, err := operation.Of(c).Get(t.Context(), operationID)
		if err != nil && sojourn.ErrorCode(err) != sojourn.CodeNotFound {
			t.Fatal(err)
		}
		if o.State.Ended() {
			break
		}
		if amid[o.Changed] {
			life += life / 4
		}
		amid[o.Changed] = true
		l.run(t, fmt.Sprint(childOperates, 20*kills), address, 1+rand.N(life))
	}
	o, err := operation.Of(c).Get(t.Context(), operationID)
	if err != nil || o.State != operation.Completed || o.Changed != failedJobs || o.Refused+o.Unchanged != 0 {
		t.Errorf("%+v %v", o, err)
	}
	jobs := 0
	for j, err := range c.Jobs().All(t.Context(), sojourn.Filter{Kind: doomed, Limit: sojourn.MaxFind}) {
		if jobs++; err != nil || j.State != sojourn.Ready || j.Generation != 2 {
			t.Fatalf("job %d is %s in generation %d: %v", j.ID, j.State, j.Generation, err)
		}
	}
	if found, err := c.Store().(driver.Checker).Check(t.Context()); len(found) > 0 || err != nil {
		t.Errorf("doctor: %v %v", found, err)
	}
	t.Logf("%d processes, killed with %d different numbers of jobs done, %d jobs redriven once", kills, len(amid), jobs)
	if jobs != failedJobs || len(amid) < 5 {
		t.Errorf("%d jobs, progress at the kills %v: the test shows nothing", jobs, amid)
	}
}

// TestKillOperation kills the process that carries out a stored operation on SQLite.
func TestKillOperation(t *testing.T) {
	killOperation(t, filepath.Join(t.TempDir(), "jobs.db"))
}

// TestKillOperationPostgres kills the process that carries out a stored operation on PostgreSQL.
func TestKillOperationPostgres(t *testing.T) {
	killOperation(t, newDatabase(t).URL)
}
