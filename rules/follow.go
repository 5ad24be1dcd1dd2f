package rules

import "github.com/sojourn-queue/sojourn"

// decideParent resolves one dependency of a blocked job. The job that is released becomes ready;
// the store makes it scheduled if its run_at is ahead. A dependency that the transition leaves open
// (tr:S4) stands until the parent ends again.
func decideParent(r Row, e Event) Transition {
	if e.Parent == sojourn.Failed || e.Parent == sojourn.Cancelled {
		text := "sojourn: a job that it depends on is " + e.Parent.String()
		switch e.OnFailure {
		case sojourn.CancelOnFailure:
			return final(r, sojourn.Cancelled, "S5", "cancelled", sojourn.ReasonDependency, text)
		case sojourn.FailOnFailure:
			return final(r, sojourn.Failed, "S5", "failed", sojourn.ReasonDependency, text)
		case sojourn.IgnoreFailure:
		default:
			return Transition{Rule: "S4", To: r}
		}
	}
	t := Transition{Rule: "S3", To: r}
	if r.AttemptOpen { // it awaits children
		t.Rule = "S8"
	}
	if t.To.WaitsFor--; t.To.WaitsFor == 0 {
		t.To.State, t.Outcome = sojourn.Ready, "unblocked"
		t.To.ChildrenDone = r.AttemptOpen
	}
	return t
}

// advance begins the next stage: a life from the beginning, except that the job was claimed, and
// that the capabilities of this stage name waits that are over. It is blocked by open dependencies.
func advance(r Row, o *sojourn.Outcome, open int32) Transition {
	t := ended(r, "F16", sojourn.Ready, o)
	t.RunAt = RunAtNow
	if o.Delay > 0 || !o.RunAt.IsZero() {
		t.To.State, t.RunAt, t.Delay = sojourn.Scheduled, RunAtDelay, o.Delay
	}
	t.To.Stage, t.To.Waits = r.Stage+1, r.Waits+1
	t.To.Attempt, t.To.AttemptOpen, t.To.Failures, t.To.Crashes = 0, false, 0, 0
	t.To.Wait, t.To.NoPoll, t.To.RetryHandler = sojourn.Wait{}, false, false
	t.To.InHand, t.To.Given, t.To.ChildrenDone = 0, false, false
	if o.Weight != nil {
		t.To.Weight = *o.Weight
	}
	if open > 0 {
		t.To.State, t.To.WaitsFor = sojourn.Blocked, open
	}
	return t
}

// awaitChildren lets the attempt wait for children, without weight. If none is open it goes on at
// once. Taken responses stay, as with a snooze.
func awaitChildren(r Row, o *sojourn.Outcome, open int32) Transition {
	if open == 0 {
		t := ended(r, "F17", sojourn.Ready, o)
		t.To.ChildrenDone = true
		return t
	}
	t := ended(r, "F17", sojourn.Blocked, o)
	t.To.WaitsFor, t.To.ChildrenDone, t.Within = open, false, o.Wait.Within
	return t
}
