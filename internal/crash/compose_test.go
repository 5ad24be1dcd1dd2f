package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/worker"
)

// childComposes is childWorks with jobs that wait for others, next jobs, stages and schedules.
const childComposes = "composes"

// The kinds of composed jobs. A member's args are unused.
var (
	member = sojourn.Kind[int]{Name: "member", Policy: patient} // depends on others, or others on it
	starts = sojourn.Kind[int]{Name: "starts", Policy: patient} // completes with a next job
	next   = sojourn.Kind[int]{Name: "next", Policy: patient}
	staged = sojourn.Kind[int]{Name: "staged", Policy: patient} // advances twice
	ticked = sojourn.Kind[int]{Name: "ticked", Policy: patient} // of a schedule
)

// schedules is how many schedules there are, each with a tick a second.
const schedules = 8

// handleComposed registers the handlers of composed jobs.
func handleComposed(w *worker.Worker, c *sojourn.Client) {
	for _, k := range []sojourn.Kind[int]{member, next, ticked} {
		worker.Handle(w, k, func(_ context.Context, job *sojourn.Job, _ int) error {
			say("run %d %d", job.ID, job.Epoch)
			return nil
		})
	}
	worker.Handle(w, starts, func(ctx context.Context, job *sojourn.Job, _ int) error {
		say("run %d %d", job.ID, job.Epoch)
		id, err := c.Store().IDs(ctx, 1)
		if err != nil {
			return err
		}
		follows := next.New(1, sojourn.DependsOn(job.ID))
		follows.ID = id
		return sojourn.Then(follows)
	})
	worker.Handle(w, staged, func(_ context.Context, job *sojourn.Job, _ int) error {
		say("run %d %d", job.ID, job.Epoch)
		if job.Stage == 2 {
			return nil
		}
		return sojourn.Advance("stages")
	})
}

// compose stores composed jobs until it is stopped: a diamond of dependencies, or others.
func compose(ctx context.Context, c *sojourn.Client) {
	for ctx.Err() == nil {
		first, err := c.Store().IDs(ctx, 5)
		if err == nil {
			var jobs []*sojourn.Job
			for i := range sojourn.ID(5) {
				jobs = append(jobs, member.New(1))
				jobs[i].ID = first + i
			}
			sojourn.DependsOn(first)(jobs[1])
			sojourn.DependsOn(first)(jobs[2])
			sojourn.DependsOn(first+1, first+2)(jobs[3])
			sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{first + 3}, OnFailure: sojourn.CancelOnFailure})(jobs[4])
			switch rand.IntN(3) {
			case 1:
				jobs = []*sojourn.Job{starts.New(1)}
			case 2:
				jobs = []*sojourn.Job{staged.New(1), staged.New(1)}
			}
			var es []sojourn.Enqueued
			if es, err = c.EnqueueAll(ctx, jobs...); err == nil {
				for _, e := range es {
					say("ack %d", e.ID)
				}
			}
		}
		if err != nil { // the server may come back
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// declare sets the schedules.
func declare(ctx context.Context, c *sojourn.Client) {
	for i := range schedules {
		d := schedule.Schedule{Name: fmt.Sprint("s", i), Every: time.Second, CatchUp: 3, Job: ticked.New(1)}
		for ctx.Err() == nil {
			if _, err := schedule.Of(c).Declare(ctx, d); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func deleteSchedules(ctx context.Context, c *sojourn.Client) error {
	for i := range schedules {
		if err := schedule.Of(c).Delete(ctx, fmt.Sprint("s", i)); err != nil && !errors.Is(err, sojourn.ErrNotFound) {
			return err
		}
	}
	return nil
}

// auditComposed checks what the composed jobs have become: each tick has one job, each completed
// step its next job, each stage has run, and a job that was blocked was released once.
func auditComposed(t *testing.T, c *sojourn.Client) {
	t.Helper()
	count, ticks := map[string]int{}, map[string]sojourn.ID{}
	for j, err := range c.Jobs().All(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		count[j.Kind]++
		if j.Schedule != "" {
			tick := fmt.Sprint(j.Schedule, " at ", j.ScheduledFor.UTC())
			if ticks[tick] != 0 {
				t.Errorf("the tick of %s has the jobs %d and %d", tick, ticks[tick], j.ID)
			}
			ticks[tick] = j.ID
		}
		if j.Kind == staged.Name && j.Stage != 2 {
			t.Errorf("job %d has ended in stage %d", j.ID, j.Stage)
		}
		if j.Kind == member.Name {
			releasedOnce(t, c, j.ID)
		}
	}
	if count[starts.Name] != count[next.Name] {
		t.Errorf("%d steps have completed with a next job, and %d next jobs are stored", count[starts.Name], count[next.Name])
	}
	t.Logf("jobs by kind: %v", count)
	for _, k := range []string{member.Name, starts.Name, staged.Name, ticked.Name} {
		if count[k] == 0 {
			t.Errorf("no job of kind %s: the test shows nothing", k)
		}
	}
}

// releasedOnce checks that a job was released once if it depends on others, and never otherwise.
func releasedOnce(t *testing.T, c *sojourn.Client, id sojourn.ID) {
	t.Helper()
	h, err := c.Jobs().History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	parents, err := c.Jobs().List(t.Context(), sojourn.Filter{ParentsOf: id})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range h {
		if e.Outcome == "unblocked" {
			n++
		}
	}
	if n != min(len(parents.Items), 1) {
		t.Errorf("job %d depends on %d jobs and was released %d times", id, len(parents.Items), n)
	}
}

// TestKillComposed kills a process in the middle of dependencies, next jobs, stages, ticks,
// workflows and awaited children (inv:G1, inv:G2, inv:E1, inv:A1).
func TestKillComposed(t *testing.T) {
	killComposed(t, filepath.Join(t.TempDir(), "crash.db"), cycles(t), 100*time.Millisecond)
}

// TestKillComposedPostgres does so on PostgreSQL.
func TestKillComposedPostgres(t *testing.T) {
	killComposed(t, newDatabase(t).URL, cycles(t), 3*time.Second) // a slow start, and sweeps each half second
}

func killComposed(t *testing.T, address string, n int, least time.Duration) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLedger()
	for range n {
		l.run(t, childComposes, address, least+time.Duration(random.IntN(900))*time.Millisecond+startUp)
	}
	l.run(t, childDrains, address, 0)
	r := l.audit(t, address)
	c, err := open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	auditComposed(t, c)
	l.auditWholes(t, c)
	t.Logf("%d kill -9 cycles, %d jobs acknowledged: %d lost, %d stuck, %d runs unexplained", n, len(l.acked), r.lost, r.stuck, r.unexplained)
	if r != (remains{}) {
		t.Errorf("%+v", r)
	}
}
