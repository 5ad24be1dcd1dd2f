package races

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// settle lets everything end that has to: the outbox, and what is due.
func (r *round) settle() error {
	_, err := r.first.Sweep(r.Ctx, 1000)
	return err
}

// jobs are the jobs of the round that are stored.
func (r *round) jobs() (map[sojourn.ID]sojourn.Job, error) {
	out := map[sojourn.ID]sojourn.Job{}
	found, err := r.first.Find(r.Ctx, sojourn.Filter{IDs: r.all(), Limit: sojourn.MaxFind})
	for _, j := range found {
		out[j.ID] = j
	}
	return out, err
}

// all are the ids of the round.
func (r *round) all() []sojourn.ID {
	ids := slices.Concat(r.parents, r.children)
	for id := range r.stored {
		ids = append(ids, id)
	}
	for id := range r.next {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// afterwards checks the jobs when all calls have returned: next jobs are stored exactly with the
// end of their step, and no job was released before its parents have ended.
func (r *round) afterwards() error {
	if err := r.settle(); err != nil {
		return err
	}
	jobs, err := r.jobs()
	if err != nil {
		return err
	}
	for id := range r.next {
		if _, ok := jobs[id]; !ok {
			return fmt.Errorf("job %d was to follow a completed step, and is not stored", id)
		}
	}
	for id := range r.lost {
		if found, err := r.first.Find(r.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}); err != nil || len(found) > 0 {
			return errors.Join(err, fmt.Errorf("job %d is stored, but the step that it was to follow was refused", id))
		}
	}
	for id, j := range jobs {
		if j.Generation > 1 || j.State == sojourn.Blocked || j.State == sojourn.Cancelled || j.State == sojourn.Failed {
			continue
		}
		parents, err := r.first.Find(r.Ctx, sojourn.Filter{ParentsOf: id, Limit: sojourn.MaxFind})
		if err != nil {
			return err
		}
		for _, p := range parents {
			if p.State.Live() && p.Generation == 1 && (p.Stage == 0 || !r.staged[id]) {
				return fmt.Errorf("job %d is %s, but job %d, on which it depends, has not ended yet", id, j.State, p.ID)
			}
		}
	}
	return nil
}

// drive completes what is ready and redrives what others wait for, until nothing is live.
func (r *round) drive() error {
	for range 100 {
		if err := r.settle(); err != nil {
			return err
		}
		if err := r.claim(); err != nil {
			return err
		}
		jobs, err := r.jobs()
		if err != nil {
			return err
		}
		live, moved := 0, false
		for id, j := range jobs {
			if !j.State.Live() {
				continue
			}
			live++
			switch j.State {
			case sojourn.Running:
				moved = true
				if err := r.finish(r.first, sojourn.Outcome{Lease: r.leases[id], Type: sojourn.OutcomeCompleted}); err != nil {
					return err
				}
			case sojourn.Blocked:
				redriven, err := r.redriveParents(id)
				if err != nil {
					return err
				}
				moved = moved || redriven
			}
		}
		switch {
		case live == 0:
			return nil
		case !moved:
			return fmt.Errorf("blocked for ever: %s", r.stuck(jobs))
		}
	}
	return errors.New("jobs are still live after 100 rounds of completing and redriving them")
}

// redriveParents redrives the failed and cancelled parents of a blocked job. It removes the
// dependency where a redrive is refused, because another job has the parent's key by now.
func (r *round) redriveParents(id sojourn.ID) (any bool, err error) {
	parents, err := r.first.Find(r.Ctx, sojourn.Filter{ParentsOf: id, Limit: sojourn.MaxFind})
	for _, p := range parents {
		if p.State != sojourn.Failed && p.State != sojourn.Cancelled {
			continue
		}
		err := r.edit(r.first, p.ID, sojourn.Edit{Action: sojourn.EditRedrive, By: "ops"})
		if sojourn.ErrorCode(err) == sojourn.CodeConflict {
			err = r.edit(r.first, id, sojourn.Edit{Action: sojourn.EditChange, By: "ops", Undepend: &[]sojourn.ID{p.ID}})
		}
		if err != nil && !refusal(err) {
			return false, err
		}
		any = any || err == nil
	}
	return any, err
}

func (r *round) stuck(jobs map[sojourn.ID]sojourn.Job) (out string) {
	for id, j := range jobs {
		if j.State.Live() {
			w, err := r.first.Why(r.Ctx, id)
			out += fmt.Sprintf("job %d is %s, waits %s %v; ", id, j.State, w.Waits, err)
		}
	}
	return out
}

// histories checks that each time that a job was blocked ended once, and that none ran meanwhile.
func (r *round) histories() error {
	for _, id := range r.all() {
		h, err := r.first.History(r.Ctx, id, 0, sojourn.MaxFind)
		if err != nil && !errors.Is(err, sojourn.ErrNotFound) {
			return err
		}
		blocked, known := r.stored[id]
		if !known { // it followed a step
			blocked = len(h) > 0 && h[0].Outcome == "unblocked"
		}
		for _, e := range h {
			switch {
			case e.Outcome == "unblocked" && !blocked:
				return fmt.Errorf("job %d was released twice: %s", id, outcomes(h))
			case e.Epoch > 0 && blocked:
				return fmt.Errorf("job %d has run while it was blocked: %s", id, outcomes(h))
			}
			blocked = e.State == sojourn.Blocked
		}
		if blocked && len(h) > 0 {
			return fmt.Errorf("job %d is final and was never released: %s", id, outcomes(h))
		}
	}
	return nil
}

func outcomes(h []sojourn.HistoryEntry) (out []string) {
	for _, e := range h {
		out = append(out, fmt.Sprintf("%s → %s by %s", e.Outcome, e.State, e.By))
	}
	return out
}

// Check lets the store check itself.
func (c *Cluster) Check() error {
	s, ok := c.Nodes[0].(driver.Checker)
	if !ok {
		return nil
	}
	found, err := s.Check(c.Ctx)
	found = slices.DeleteFunc(found, func(v driver.Violation) bool { return v.Check == "nothing-overdue" }) // the clock leaps
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the store's own checks found %v", found)
	}
	return err
}
