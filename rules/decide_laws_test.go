package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// broken names the law that the step from p to n by m breaks, or "".
func (sc *walkScene) broken(p *life, m move, n *life) string {
	for _, law := range []string{sc.brokenRow(&n.row), sc.brokenResponses(n), sc.brokenLinks(n), sc.brokenCount(p, m, n), brokenHand(p, m, n), brokenChange(p, m, n)} {
		if law != "" {
			return law
		}
	}
	return ""
}

// brokenRow is about one row alone.
func (sc *walkScene) brokenRow(r *Row) string {
	runsCode := r.Purpose == sojourn.PurposeStart || r.Purpose == sojourn.PurposeResume
	inFlight := runsCode || r.Purpose == sojourn.PurposePoll || r.State == sojourn.Awaiting || r.Resumed
	held := int32(0)
	if inFlight {
		held = r.Weight
	}
	switch {
	case (r.State == sojourn.Running) != (r.Purpose != sojourn.NoPurpose):
		return "running without a purpose, or a purpose without running"
	case r.Held != held:
		return fmt.Sprintf("holds the weight %d, must hold %d", r.Held, held)
	case r.Resumed && r.State != sojourn.Ready:
		return "resumed but not ready"
	case inFlight != r.AttemptOpen && (inFlight || r.State != sojourn.Ready && r.State != sojourn.Scheduled && r.State != sojourn.Blocked):
		return "in flight without an open attempt, or an open attempt at rest"
	case (r.State == sojourn.Blocked) != (r.WaitsFor > 0):
		return "blocked by nothing, or not blocked by what is open"
	case r.State == sojourn.Blocked && r.ChildrenDone:
		return "blocked, and its children are done"
	case r.State == sojourn.Awaiting && (r.InHand != 0 || r.Given):
		return "awaits with a response in hand"
	case r.Purpose == sojourn.PurposeResume && (r.InHand == 0 || !r.Given):
		return "resumes without its answer"
	case runsCode && r.Given != (r.InHand > 0):
		return "a handler runs, and what is in hand is not given to it"
	case r.State == sojourn.Errored && !r.RetryHandler:
		return "errored without a retry handler"
	case r.Failures > r.Policy.MaxAttempts || r.Crashes > r.Policy.MaxCrashes+1 || r.Attempt > r.Failures+r.Crashes+1:
		return "a counter above its bound"
	case r.State.Live() && r.Failures >= r.Policy.MaxAttempts:
		return "live with its budget used up"
	case r.State.Final() && (r.AttemptOpen || r.Kept != 0 || r.InHand != 0 || r.Given || r.NoPoll || len(r.Wait.Keys) > 0):
		return "final with something open"
	case r.Weight != sc.start.Weight || r.ID != sc.start.ID || !reflect.DeepEqual(r.Policy, sc.start.Policy):
		return "weight, id or policy changed"
	}
	return ""
}

// brokenResponses compares the row with where the responses are, and with what an independent look
// says that Match must find.
func (sc *walkScene) brokenResponses(l *life) string {
	var inHand, keptNow int32
	for i := range l.at {
		switch l.at[i] {
		case held:
			inHand++
		case kept:
			keptNow++
		}
	}
	if l.poll {
		inHand++
	}
	waits := l.row.State == sojourn.Awaiting
	retries := (l.row.State == sojourn.Ready || l.row.State == sojourn.Scheduled) && l.row.Claimed && l.row.Attempt > 0 && !l.row.Resumed
	good, failed := sc.wouldEnd(l)
	fresh := l.row.Stage > 0 && l.row.Attempt == 0 && l.row.State.Live()
	switch {
	case fresh && (inHand > 0 || l.row.Given):
		return "a new stage has a response before its first attempt"
	case keptNow != l.row.Kept:
		return fmt.Sprintf("counts %d kept responses, has %d", l.row.Kept, keptNow)
	case inHand != l.row.InHand:
		return fmt.Sprintf("counts %d responses in hand, has %d", l.row.InHand, inHand)
	case waits && (good || failed):
		return "lost wake-up: it awaits although its answer lies there"
	case retries && l.row.InHand == 0 && !l.row.Policy.InboxLate() && good:
		return "a new request is due although the answer to the last one lies there"
	case l.row.Purpose == sojourn.PurposeResume && !l.poll && l.row.Wait.Mode == sojourn.WaitAll && int(inHand) != len(l.row.Wait.Keys):
		return "resumed after All with a part of the answers"
	case retries && l.row.InHand > 0 && l.row.Wait.Mode == sojourn.WaitAll && !l.poll && int(inHand) != len(l.row.Wait.Keys):
		return "a retry took a part of what All waits for"
	}
	return ""
}

// brokenLinks: one capability, of which both responses are, answers one wait.
func (sc *walkScene) brokenLinks(l *life) string {
	answers := 0
	for i := range sc.sent {
		if sc.sent[i].ByToken && l.row.Stage > 0 && l.at[i] == kept && l.row.State.Live() {
			return "an answer by a capability of an earlier stage is kept"
		}
	}
	for i := range sc.sent {
		if sc.sent[i].ByToken && (l.at[i] == held || l.at[i] == done) {
			answers++
		}
		if sc.sent[i].ByToken && l.at[i] == kept && answers > 0 {
			return "a second answer by one capability is kept for the next wait"
		}
	}
	if answers > 1 {
		return "one capability has answered two waits"
	}
	return ""
}

// wouldEnd says whether good kept responses end the last wait, or an error response does. It is
// written apart from Match.
func (sc *walkScene) wouldEnd(l *life) (good, failed bool) {
	keys := l.row.Wait.Keys
	if len(keys) == 0 {
		keys = []string{sc.key}
	}
	missing := slices.Clone(keys)
	for _, k := range sc.kept(l) {
		if k.ByToken && l.row.Wait.Mode == sojourn.WaitAny {
			k.Key = keys[0]
		}
		if !slices.Contains(keys, k.Key) {
			continue
		}
		if k.Failed {
			failed = true
			continue
		}
		missing = slices.DeleteFunc(missing, func(key string) bool { return key == k.Key })
	}
	return len(missing) == 0 || l.row.Wait.Mode == sojourn.WaitAny && len(missing) < len(keys), failed
}

// brokenCount is about what a step may count: attempts at their opening, errors and losses once,
// rests never.
func (sc *walkScene) brokenCount(p *life, m move, n *life) string {
	a := p.row
	for k, t := range n.last {
		b := t.To
		opened, failures, crashes := b.Attempt-a.Attempt, b.Failures-a.Failures, b.Crashes-a.Crashes
		name, began := m.name, m.name == "claim" && b.Purpose == sojourn.PurposeStart && !a.AttemptOpen
		if k > 0 || m.respond > 0 {
			name, began = "match", false // what follows the event in the same transaction
		}
		switch {
		case name == "redrive":
			if b.Attempt+b.Failures+b.Crashes != 0 || b.Claimed {
				return "redriven, but not from nothing"
			}
		case strings.HasPrefix(name, "advance"):
			if b.Attempt+b.Failures+b.Crashes != 0 || b.Stage != a.Stage+1 || b.InHand != 0 {
				return "advanced, but not to the beginning of the next stage"
			}
		case b.Stage != a.Stage:
			return "another stage without an advance"
		case opened != 0 && !began || opened != 1 && began:
			return fmt.Sprintf("attempt %d became %d", a.Attempt, b.Attempt)
		case failures < 0 || crashes < 0 || failures+crashes > 1:
			return "a counter went back, or two went up"
		case name == "lease ends" && crashes == 0 && (a.Purpose != sojourn.PurposePoll || a.Crashes < a.Policy.MaxCrashes):
			return "a lost lease that counts nowhere: a loop without an end"
		case name != "lease ends" && crashes != 0:
			return "a crash was counted without a lost lease"
		case name == "timeout" && failures == 0:
			return "a timeout that counts nowhere"
		case failures != 0 && slices.Contains([]string{"snooze", "hold", "hold of another queue", "release", "claim", "due", "no answer", "await", "await jobs", "await no jobs", "a job ends"}, name):
			return "counted as a failure: " + name
		}
		a = b
	}
	return ""
}

// brokenHand: a taken response is detached only when a handler that has got it disposes of it, or
// when the job ends and it becomes late.
func brokenHand(p *life, m move, n *life) string {
	for i := range p.at {
		was, is := p.at[i], n.at[i]
		switch {
		case was == held && is != held && n.row.State.Live() && !m.disposes:
			return fmt.Sprintf("response r%d is lost: it was in hand, and nobody disposed of it", i)
		case was == held && is == done && !p.shown[i]:
			return fmt.Sprintf("response r%d counts as applied although no handler was given it", i)
		case was == held && is == kept, was == done && is != done, was == late && is != late, was == stale && is != stale:
			return fmt.Sprintf("response r%d went back", i)
		case is == kept && n.row.State.Final(), is == held && n.row.State.Final():
			return fmt.Sprintf("response r%d hangs on a final job", i)
		case was == unsent && is == late && p.row.State.Live() && n.row.State.Live() && !n.failedOnly(i, p):
			return fmt.Sprintf("response r%d is called late although the job lives", i)
		}
	}
	return ""
}

// failedOnly reports whether response i may be late for a live job: error responses for an attempt
// that is over are.
func (l *life) failedOnly(i int, p *life) bool {
	return i == 1 && (p.row.State == sojourn.Scheduled || p.row.State == sojourn.Ready) && !p.row.Resumed && l.row.Claimed
}

// brokenChange is about the transitions of the step: final rows, the history, run_at.
func brokenChange(p *life, m move, n *life) string {
	if p.row.State.Final() && m.name != "redrive" && (n.row.State != p.row.State || n.row.Failures != p.row.Failures || n.row.Crashes != p.row.Crashes) {
		return "a final row changed"
	}
	if m.name == "deadline" && n.row.State != sojourn.Failed {
		return "a deadline that does not fail the job"
	}
	if was, is := p.row.ChildrenDone, n.row.ChildrenDone; was != is {
		by := []string{"a job ends", "await no jobs"}
		if was {
			by = []string{"await jobs", "advance", "advance later", "advance, blocked", "redrive"}
		}
		if !slices.Contains(by, m.name) {
			return fmt.Sprintf("children done became %v by %q", is, m.name)
		}
	}
	from := p.row.State
	for _, t := range n.last {
		to := t.To.State
		switch {
		case from == sojourn.Running && to != sojourn.Running && t.Outcome == "":
			return "a lease ended without an entry in the history"
		case to == sojourn.Scheduled && from != sojourn.Scheduled && t.RunAt != RunAtDelay && t.RunAt != RunAtOpening:
			return "scheduled without a new run_at: it is due at once"
		case to != sojourn.Scheduled && to != sojourn.Blocked && t.RunAt == RunAtDelay:
			return "a delay for a job that is not scheduled"
		case t.Delay < 0:
			return "a negative delay"
		}
		from = to
	}
	return ""
}
