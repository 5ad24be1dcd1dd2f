package worker

import (
	"time"

	"github.com/sojourn-queue/sojourn/schedule"
)

// declareAgain is the pause before a declaration that has failed is repeated.
const declareAgain = 5 * time.Second

// Schedule declares a schedule when the worker starts, see schedule.Schedules.Declare: what an
// operator has set or paused since the same declaration stays. It repeats a declaration that fails,
// and reports the failure. Call it before Run.
func (w *Worker) Schedule(d schedule.Schedule) { w.schedules = append(w.schedules, d) }

// declareSchedules declares the schedules of the worker. One that fails does not hinder the others.
func (r *run) declareSchedules() {
	for left := r.w.schedules; len(left) > 0 && r.calls.Err() == nil; {
		var again []schedule.Schedule
		for _, d := range left {
			if _, err := schedule.StoreOf(r.w.store).SetSchedule(r.calls, d, schedule.ModeDeclare); err != nil {
				r.failed("schedule "+d.Name, err)
				again = append(again, d)
			}
		}
		signal(r.declared) // the next sweep learns when they are due
		if left = again; len(left) > 0 {
			sleep(r.calls, declareAgain, nil)
		}
	}
}
