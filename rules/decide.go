package rules

import (
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/inside"
)

// Row is the part of a job that the rules read and change: no clocks, no bytes. A store keeps it
// with the job, calls Decide and Match in the transaction of the event, and writes their results.
type Row struct {
	ID           sojourn.ID
	State        sojourn.State
	Resumed      bool            // ready with its answer, still holding its weight; claimed before all plain ready jobs
	Purpose      sojourn.Purpose // of the lease; NoPurpose exactly while not running
	Claimed      bool            // claimed before in this generation
	RetryHandler bool            // the worker of the last claim had the kind's own retry handler
	AttemptOpen  bool
	Attempt      int32
	Failures     int32
	Crashes      int32
	Weight       int32
	Held         int32        // the weight it holds now; the queue's limit sums this
	Kept         int32        // responses attached that no handler has yet
	InHand       int32        // responses taken; they are Job.Response at its next start or resume
	Given        bool         // a handler was started with the taken responses
	NoPoll       bool         // poll steps of this wait were lost too often
	Waits        int32        // waits of this generation that an answer or the end of their stage has ended; a capability names the one that it answers by this number
	Stage        int32        // how often the job has advanced; Claimed and Waits go on in the next stage, the other counters start again
	WaitsFor     int32        // open dependencies; more than 0 exactly while blocked. With an open attempt they are the children that it awaits
	ChildrenDone bool         // all children of this stage that it has awaited are final
	Wait         sojourn.Wait // the last wait of this generation; its zero value is the job's own key
	Policy       sojourn.Policy
}

// EventType is a kind of event in the life of a job.
type EventType uint8

// The events of Decide, each with its rows of docs/reference/transitions.md.
const (
	EventDue           EventType = 1 + iota // run_at has come: tr:S1
	EventClaimed                            // tr:C1-C5
	EventFinished                           // tr:F1-F11, tr:F13, tr:F14, tr:F16, tr:F17, tr:D1-D3, tr:P1-P4
	EventLeaseEnded                         // without a report: tr:W1-W3
	EventTimedOut                           // the attempt's timeout or its wait: tr:W4, tr:W5, tr:W11
	EventErrorResponse                      // tr:M2
	EventDeadline                           // tr:W6
	EventDecideOverdue                      // no worker decided in time: tr:W7
	EventResumeOverdue                      // no worker resumed it before its timeout: tr:W8
	EventCancel                             // tr:O1
	EventFail                               // tr:O1
	EventRedrive                            // tr:O3
	EventRelease                            // an operator ends the lease: tr:O10
	EventPutOff                             // a gate has put it off: tr:S6
	EventWindowClosed                       // found by a claim outside its windows: tr:S2
	EventParent                             // a job that it depends on, or a child, has ended, or the dependency was removed: tr:S3-S5, tr:S8
)

// Event is something that happens to a job.
type Event struct {
	Type         EventType
	Outcome      *sojourn.Outcome // of EventFinished
	RetryHandler bool             // of EventClaimed: the worker has the kind's retry handler
	KeyConflict  bool             // of EventFinished with await: a key belongs to another live job
	Answered     bool             // of EventFinished with answer: a kept response ends the wait already
	Open         int32            // of EventFinished with advance or await_jobs: the dependencies, or children, that are open
	Delay        time.Duration    // of EventPutOff
	Parent       sojourn.State    // of EventParent: the final state; 0 = the dependency was removed, or its stage is over
	OnFailure    sojourn.OnFailure
	Reason       string // of EventTimedOut, EventErrorResponse, EventCancel, EventFail, EventRelease
	Error        string
}

// RunAtRule is the effect of a transition on run_at.
type RunAtRule uint8

// The effects on run_at.
const (
	KeepRunAt  RunAtRule = iota
	RunAtDelay           // the store's clock plus Delay
	RunAtNow
	RunAtOpening // of its windows, see PutOff
)

// Transition is the effect of an event on a job. It holds durations, never times: the store adds
// its clock.
type Transition struct {
	Rule     string // its id in docs/reference/transitions.md, such as "F2"
	To       Row
	RunAt    RunAtRule
	Delay    time.Duration
	Poll     time.Duration // of a job that awaits: until its next poll step, if its wait has any
	Within   time.Duration // of a job that begins to wait for children: the limit of that; 0 = none but the timeout
	HandLate bool          // the taken responses were never given to a handler and become late
	KeptLate bool          // the kept responses become late
	Outcome  string        // of the history; empty writes none
	Reason   string
	Error    string
}

// Decide returns the transition of a job for an event. It is pure. The error is an *Error with
// CodeInvalid if the event cannot happen to a job in this state; then nothing changes. After the
// transition the store calls Match if responses are kept.
func Decide(r Row, e Event) (Transition, error) {
	switch e.Type {
	case EventDue:
		if r.State == sojourn.Scheduled {
			r.State = sojourn.Ready
			return Transition{Rule: "S1", To: r}, nil
		}
	case EventWindowClosed:
		if r.State == sojourn.Ready && !r.Resumed {
			r.State = sojourn.Scheduled
			return Transition{Rule: "S2", To: r, RunAt: RunAtOpening}, nil
		}
	case EventClaimed:
		return decideClaim(r, e)
	case EventFinished:
		return decideFinish(r, e)
	case EventLeaseEnded:
		return decideLost(r)
	case EventTimedOut:
		return decideTimeout(r, e)
	case EventErrorResponse:
		if r.State == sojourn.Awaiting {
			r.Waits++
			t := endAttempt(r, false, classOf(e.Reason, e.Error), e.Error)
			t.Rule, t.Outcome = "M2", "responded"
			return t, nil
		}
	case EventDeadline:
		if r.State.Live() {
			return final(r, sojourn.Failed, "W6", "deadline", sojourn.ReasonDeadline, e.Error), nil
		}
	case EventDecideOverdue:
		if r.State == sojourn.Errored {
			t := Transition{Rule: "W7", To: r, RunAt: RunAtDelay, Delay: r.Policy.Backoff.Delay(r.ID, r.Failures+r.Crashes), Outcome: "decided"}
			t.To.State = sojourn.Scheduled
			return t, nil
		}
	case EventResumeOverdue:
		if r.State == sojourn.Ready && r.Resumed {
			r.Resumed, r.Held = false, 0
			return Transition{Rule: "W8", To: r}, nil
		}
	case EventCancel:
		if r.State.Live() {
			return final(r, sojourn.Cancelled, "O1", "cancelled", e.Reason, e.Error), nil
		}
	case EventFail:
		if r.State.Live() {
			return final(r, sojourn.Failed, "O1", "failed", e.Reason, e.Error), nil
		}
	case EventRelease:
		return decideRelease(r, e)
	case EventPutOff:
		if r.State == sojourn.Ready && !r.Resumed {
			r.State = sojourn.Scheduled
			return Transition{Rule: "S6", To: r, RunAt: RunAtDelay, Delay: e.Delay}, nil
		}
	case EventParent:
		if r.State == sojourn.Blocked && r.WaitsFor > 0 {
			return decideParent(r, e), nil
		}
	case EventRedrive:
		if r.State == sojourn.Failed || r.State == sojourn.Cancelled {
			to := Row{ID: r.ID, State: sojourn.Ready, Weight: r.Weight, Stage: r.Stage, Policy: r.Policy}
			return Transition{Rule: "O3", To: to, RunAt: RunAtNow, Outcome: "redriven", Reason: e.Reason}, nil
		}
	}
	return impossible(r, e)
}

func impossible(r Row, e Event) (Transition, error) {
	return Transition{}, sojourn.Invalid("event", "event %d cannot happen to a job that is %s (%s)", e.Type, r.State, r.Purpose)
}

// decideClaim starts a step: the gates have been passed.
func decideClaim(r Row, e Event) (Transition, error) {
	t := Transition{To: r}
	switch {
	case r.State == sojourn.Ready && r.Resumed:
		t.Rule, t.To.Purpose = "C3", sojourn.PurposeResume
	case r.State == sojourn.Ready:
		t.Rule, t.To.Purpose, t.To.Held = "C2", sojourn.PurposeStart, r.Weight
		if !r.AttemptOpen {
			t.Rule, t.To.AttemptOpen, t.To.Attempt = "C1", true, r.Attempt+1
		}
	case r.State == sojourn.Errored && e.RetryHandler:
		t.Rule, t.To.Purpose = "C4", sojourn.PurposeDecide
	case r.State == sojourn.Awaiting && !r.NoPoll:
		t.Rule, t.To.Purpose = "C5", sojourn.PurposePoll
	default:
		return impossible(r, e)
	}
	t.To.State, t.To.Resumed, t.To.Claimed, t.To.RetryHandler = sojourn.Running, false, true, e.RetryHandler
	if t.To.Purpose == sojourn.PurposeStart || t.To.Purpose == sojourn.PurposeResume {
		t.To.Given = r.InHand > 0
	}
	return t, nil
}

// decideFinish returns the transition for a worker's report: F, D and P.
func decideFinish(r Row, e Event) (Transition, error) {
	if r.State != sojourn.Running || e.Outcome == nil {
		return impossible(r, e)
	}
	switch r.Purpose {
	case sojourn.PurposeDecide:
		return finishDecide(r, e)
	case sojourn.PurposePoll:
		return finishPoll(r, e)
	}
	return finishRun(r, e)
}

// finishRun ends a step that ran the handler.
func finishRun(r Row, e Event) (Transition, error) {
	o := e.Outcome
	switch o.Type {
	case sojourn.OutcomeCompleted:
		return final(r, sojourn.Completed, "F1", string(o.Type), "", ""), nil
	case sojourn.OutcomeError:
		return finishError(r, o), nil
	case sojourn.OutcomeAwait:
		if e.KeyConflict {
			c := *o
			c.Reason, c.Text = sojourn.ReasonKeyConflict, "sojourn: a key to await belongs to another live job"
			t := finishError(r, &c)
			t.Rule = "F6"
			return t, nil
		}
		t := ended(r, "F5", sojourn.Awaiting, o)
		t.To.Held, t.To.Wait = r.Held, o.Wait
		t.To.Wait.Polls = 0
		t.Poll = nextPoll(t.To.Wait, r.ID)
		t.To.InHand, t.To.Given, t.To.NoPoll = 0, false, false
		return t, nil
	case sojourn.OutcomeSnooze:
		t := ended(r, "F7", sojourn.Scheduled, o)
		t.RunAt, t.Delay = RunAtDelay, o.Delay
		return t, nil
	case sojourn.OutcomeHold:
		t := ended(r, "F14", sojourn.Ready, o) // its queue is closed now; it keeps its place
		if o.Queue != "" {                     // another queue: this one would run it at once
			t.To.State, t.RunAt, t.Delay = sojourn.Scheduled, RunAtDelay, o.Delay
		}
		return t, nil
	case sojourn.OutcomeAdvance:
		return advance(r, o, e.Open), nil
	case sojourn.OutcomeAwaitJobs:
		return awaitChildren(r, o, e.Open), nil
	case sojourn.OutcomeAbort:
		return final(r, sojourn.Failed, "F8", string(o.Type), classOf(o.Reason, o.Text), o.Text), nil
	case sojourn.OutcomeCancelled:
		return final(r, sojourn.Cancelled, "F9", string(o.Type), o.Reason, o.Text), nil
	case sojourn.OutcomeUndecodable:
		r.Given = false // no handler ran
		return final(r, sojourn.Failed, "F13", string(o.Type), sojourn.ReasonUndecodable, o.Text), nil
	case sojourn.OutcomeReleased:
		t := ended(r, "F11", sojourn.Ready, o)
		t.To.Given = false
		if r.Purpose == sojourn.PurposeResume {
			t.Rule, t.To.Resumed, t.To.Held = "F10", true, r.Held
		}
		return t, nil
	}
	return impossible(r, e)
}

// finishError ends an attempt by an error: the worker has asked the kind's retry policy, or leaves
// it to the stored backoff.
func finishError(r Row, o *sojourn.Outcome) Transition {
	t := ended(r, "F2", sojourn.Scheduled, o)
	t.Reason, t.To.AttemptOpen, t.To.Failures = classOf(o.Reason, o.Text), false, r.Failures+1
	if o.Verdict.Final || spent(t.To.Failures, r.Policy.MaxAttempts) {
		f := final(r, sojourn.Failed, "F3", t.Outcome, t.Reason, o.Text)
		f.To.Failures = t.To.Failures
		return f
	}
	if o.Verdict.Again && r.InHand > 0 {
		t.Rule, t.To.InHand, t.To.Given = "F4", 0, false
	}
	t.RunAt, t.Delay = RunAtDelay, verdictDelay(r, o.Verdict, t.To.Failures)
	return t
}

// decideRelease does what the worker's own release does. The outcome is another one, so that the
// history shows the difference and no report of the worker counts as a repeated one.
func decideRelease(r Row, e Event) (Transition, error) {
	if r.State != sojourn.Running {
		return impossible(r, e)
	}
	e.Outcome = &sojourn.Outcome{Type: sojourn.OutcomeReleased, Reason: e.Reason}
	t, err := decideFinish(r, e)
	t.Rule, t.Outcome = "O10", "revoked"
	return t, err
}

func finishDecide(r Row, e Event) (Transition, error) {
	o := e.Outcome
	switch {
	case o.Type == sojourn.OutcomeDecided && o.Verdict.Final:
		return final(r, sojourn.Failed, "D2", string(o.Type), classOf(o.Reason, o.Text), o.Text), nil
	case o.Type == sojourn.OutcomeDecided:
		t := ended(r, "D1", sojourn.Scheduled, o)
		t.RunAt, t.Delay = RunAtDelay, verdictDelay(r, o.Verdict, r.Failures+r.Crashes)
		if o.Verdict.Again {
			t.To.InHand, t.To.Given = 0, false
		}
		return t, nil
	case o.Type == sojourn.OutcomeReleased:
		return ended(r, "D3", sojourn.Errored, o), nil
	}
	return impossible(r, e)
}

func finishPoll(r Row, e Event) (Transition, error) {
	o := e.Outcome
	t := ended(r, "", sojourn.Awaiting, o)
	t.To.Held = r.Held
	switch {
	case o.Type == sojourn.OutcomeNoAnswer:
		t.Rule, t.To.Wait = "P1", polled(r.Wait)
		t.Poll = nextPoll(t.To.Wait, r.ID)
	case o.Type == sojourn.OutcomeAnswer && e.Answered:
		t.Rule = "P4" // a kept response came first; Match follows
	case o.Type == sojourn.OutcomeAnswer:
		t.Rule, t.To.State, t.To.Resumed, t.To.InHand, t.To.Given = "P2", sojourn.Ready, true, 1, false
		t.To.Waits++
	case o.Type == sojourn.OutcomeReleased:
		t.Rule = "P3"
	default:
		return impossible(r, e)
	}
	return t, nil
}

// decideLost handles a lease that ended without a report.
func decideLost(r Row) (Transition, error) {
	crashes := r.Crashes + 1
	const text = "sojourn: the lease ended without a report"
	switch {
	case r.State != sojourn.Running:
		return Transition{}, sojourn.Invalid("event", "a job that is %s has no lease to lose", r.State)
	case r.Purpose == sojourn.PurposePoll:
		t := ended(r, "W3", sojourn.Awaiting, nil)
		t.To.Held, t.Outcome, t.Reason, t.Error = r.Held, "lost", sojourn.ReasonLeaseLost, text
		t.To.NoPoll, t.To.Wait = spent(crashes, r.Policy.MaxCrashes), polled(r.Wait)
		t.Poll = nextPoll(t.To.Wait, r.ID)
		if r.Policy.MaxCrashes < 0 || r.Crashes < r.Policy.MaxCrashes {
			t.To.Crashes = crashes
		}
		return t, nil
	case r.Purpose == sojourn.PurposeDecide:
		t := ended(r, "W2", sojourn.Errored, nil)
		if spent(crashes, r.Policy.MaxCrashes) {
			t = final(r, sojourn.Failed, "W2", "", "", "")
		}
		t.To.Crashes, t.Outcome, t.Reason, t.Error = crashes, "lost", sojourn.ReasonLeaseLost, text
		return t, nil
	}
	t := endAttempt(r, true, sojourn.ReasonLeaseLost, text)
	t.Rule, t.Outcome = "W1", "lost"
	return t, nil
}

// decideTimeout handles a timeout while the job awaits a response or children, or runs (then one
// lease late). Children go on.
func decideTimeout(r Row, e Event) (Transition, error) {
	rule := "W4"
	switch {
	case r.State == sojourn.Awaiting:
	case r.State == sojourn.Running && r.Purpose != sojourn.PurposeDecide:
		rule = "W5"
	case r.State == sojourn.Blocked && r.AttemptOpen:
		rule, r.WaitsFor = "W11", 0
	default:
		return impossible(r, e)
	}
	t := endAttempt(r, false, e.Reason, e.Error)
	t.Rule, t.Outcome = rule, "timed_out"
	return t, nil
}

// endAttempt closes an attempt where no handler code could decide: budgets, then the kind's retry
// handler, then the stored backoff. The first lost lease keeps run_at, so that the job stands at
// the front of its priority; later ones back off, so that a poison job does not meet the same
// neighbours each time.
func endAttempt(r Row, lost bool, reason, text string) Transition {
	t := ended(r, "", sojourn.Scheduled, nil)
	t.Reason, t.Error = reason, text
	t.To.AttemptOpen, t.To.NoPoll = false, false
	n, fail := r.Failures+1, false
	if lost {
		n = r.Crashes + 1
		t.To.Crashes, fail = n, r.Policy.OnLost == sojourn.Fail || spent(n, r.Policy.MaxCrashes)
	} else {
		t.To.Failures, fail = n, spent(n, r.Policy.MaxAttempts)
	}
	switch {
	case fail:
		f := final(r, sojourn.Failed, "", "", reason, text)
		f.To.Failures, f.To.Crashes = t.To.Failures, t.To.Crashes
		return f
	case r.RetryHandler:
		t.To.State = sojourn.Errored
	case lost && n == 1:
		t.To.State = sojourn.Ready
	case lost:
		t.RunAt, t.Delay = RunAtDelay, r.Policy.Backoff.Delay(r.ID, n-1)
	default:
		t.RunAt, t.Delay = RunAtDelay, r.Policy.Backoff.Delay(r.ID, n)
	}
	return t
}

// ended takes the lease and the weight away; the rest of the row stays.
func ended(r Row, rule string, to sojourn.State, o *sojourn.Outcome) Transition {
	t := Transition{Rule: rule, To: r}
	t.To.State, t.To.Purpose, t.To.Resumed, t.To.Held = to, sojourn.NoPurpose, false, 0
	if o != nil {
		t.Outcome, t.Reason, t.Error = string(o.Type), o.Reason, o.Text
	}
	return t
}

// final ends the job: lease, weight, wait, taken responses and attempt. The store frees the key and
// marks unused responses as late.
func final(r Row, to sojourn.State, rule, outcome, reason, text string) Transition {
	t := ended(r, rule, to, nil)
	t.Outcome, t.Reason, t.Error = outcome, reason, text
	t.HandLate, t.KeptLate = r.InHand > 0 && !r.Given, r.Kept > 0
	t.To.AttemptOpen, t.To.NoPoll, t.To.Wait = false, false, sojourn.Wait{}
	t.To.Kept, t.To.InHand, t.To.Given, t.To.WaitsFor = 0, 0, false, 0
	return t
}

func spent(n, budget int32) bool { return budget >= 0 && n >= budget }

func verdictDelay(r Row, v sojourn.Verdict, n int32) time.Duration {
	switch {
	case v.Delay < 0: // Now
		return 0
	case v.Delay > 0:
		return v.Delay
	}
	return r.Policy.Backoff.Delay(r.ID, n)
}

// classOf derives a missing reason from the text of a failure: workers in other languages and error
// responses may send none.
func classOf(reason, text string) string {
	if reason == "" {
		return inside.Fingerprint(text)
	}
	return reason
}

// nextPoll is the time from now until the next poll step of an awaiting job.
func nextPoll(w sojourn.Wait, id sojourn.ID) time.Duration {
	if w.Poll.First == 0 {
		return 0
	}
	return w.Poll.Delay(id, w.Polls+1)
}

// polled counts a poll step without an answer.
func polled(w sojourn.Wait) sojourn.Wait {
	if w.Poll.First != 0 && w.Polls < math.MaxInt32 {
		w.Polls++
	}
	return w
}
