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

// declareSchedules declares the schedules of the worker.
func (r *run) declareSchedules() {
	for _, d := range r.w.schedules {
		for r.calls.Err() == nil {
			_, err := schedule.StoreOf(r.w.store).SetSchedule(r.calls, d, schedule.ModeDeclare)
			if err == nil {
				break
			}
			r.failed("schedule "+d.Name, err)
			sleep(r.calls, declareAgain, nil)
		}
	}
	r.declared <- struct{}{} // the next sweep learns when they are due
}
