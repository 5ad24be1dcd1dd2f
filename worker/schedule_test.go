package worker

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// spec:N6: a worker declares its schedules when it starts, and runs their jobs. An operator's pause
// of another one stays.
func TestWorkerDeclaresSchedules(t *testing.T) {
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	every := func(name string) schedule.Schedule {
		return schedule.Schedule{Name: name, Every: time.Second, Job: sojourn.NewJob("tick", []byte("{}"))}
	}
	if _, err := schedule.Of(c).Declare(ctx, every("paused")); err != nil {
		t.Fatal(err)
	}
	if err := schedule.Of(c).Pause(ctx, "paused"); err != nil {
		t.Fatal(err)
	}
	w := New(c, Options{Concurrency: 1, SweepEvery: time.Hour})
	w.Schedule(every("often"))
	w.Schedule(every("paused"))
	ran := make(chan sojourn.Job, 100)
	Handle(w, sojourn.Kind[any]{Name: "tick"}, func(_ context.Context, j *sojourn.Job, _ any) error {
		ran <- *j
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for range 2 { // though the worker sweeps once an hour, it knows when the schedule is due
		select {
		case j := <-ran:
			if j.Schedule != "often" || j.ScheduledFor.IsZero() {
				t.Errorf("ran a job of schedule %q for %s", j.Schedule, j.ScheduledFor)
			}
		case <-ctx.Done():
			t.Fatal("no tick became a job within 20 s")
		}
	}
	if d, err := schedule.Of(c).Get(ctx, "paused"); err != nil || !d.Paused || d.Runs != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	cancel()
	<-done
}
