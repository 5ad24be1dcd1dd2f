package postgres

import (
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestOwnScheduleNeedsNoPoll: spec:P3, spec:O7. A waiting claim gets the jobs that its own process
// schedules, by an enqueue, a snooze or a retry, although the next poll is an hour away.
func TestOwnScheduleNeedsNoPoll(t *testing.T) {
	c := open(t, Schema(newSchema(t)), AutoMigrate(), func(o *options) { o.poll = time.Hour })
	defer c.Close()
	s := driver.Of(c)
	const delay = 200 * time.Millisecond
	request := driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Wait: 20 * time.Second}
	var last driver.Claimed
	for what, schedule := range map[string]func() error{
		"an enqueue": func() error {
			_, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Delay(delay)))
			return err
		},
		"a snooze": func() error {
			_, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: last.Lease, Type: sojourn.OutcomeSnooze, Delay: delay}})
			return err
		},
		"a retry": func() error {
			_, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: last.Lease, Type: sojourn.OutcomeError, Delay: delay}})
			return err
		},
	} {
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		jobs, err := s.Claim(t.Context(), request)
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		last = jobs[0]
		waiting := make(chan []driver.Claimed)
		go func() {
			jobs, err := s.Claim(t.Context(), request)
			if err != nil {
				t.Error(err)
			}
			waiting <- jobs
		}()
		time.Sleep(50 * time.Millisecond) // mostly it waits by then; if it does not, the test shows less
		if err := schedule(); err != nil {
			t.Fatal(what, err)
		}
		if jobs := <-waiting; len(jobs) != 1 {
			t.Errorf("after %s: %d jobs", what, len(jobs))
		}
	}
}
