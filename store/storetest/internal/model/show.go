package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Difference names the fields that differ.
func Difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			out = append(out, "  is "+g[i]+", want "+w[i])
		}
	}
	return strings.Join(out, "\n")
}

const form = `state %s resumed %v waits for %d purpose %s worker %q
generation %d stage %d epoch %d attempt %d
failures %d crashes %d
kept %d in hand %v
awaits %s
kind %s queue %s key %q priority %d weight %d
args %q
checkpoint %q progress %q
result %q reason %q
run at %v
wakes at %v
updated at %v finished at %v`

// Shown is a job as the store shows it.
func Shown(j *sojourn.Job) string {
	var hand []string
	for _, m := range j.Responses {
		hand = append(hand, m.MessageID)
	}
	return fmt.Sprintf(form, j.State, j.Resumed, j.WaitsFor, j.Purpose, j.Worker, j.Generation, j.Stage, j.Epoch, j.Attempt, j.Failures, j.Crashes, j.Kept, hand,
		awaits(j.Waiting), j.Kind, j.Queue, j.Key, j.Priority, j.Weight, j.Args, j.Checkpoint, j.Progress, j.Result, j.Reason,
		Micros(j.RunAt), Micros(j.WakeAt), Micros(j.UpdatedAt), Micros(j.FinishedAt))
}

// Shows is a job as the model has it.
func (m *Model) Shows(j *Job) string {
	var hand []string
	for _, r := range m.Inbox.inHand(j.ID) {
		hand = append(hand, r.Response.MessageID)
	}
	worker, reason := "", j.reason
	if j.State == sojourn.Running {
		worker = j.Worker
	}
	if j.State.Live() {
		reason = j.lastReason()
	}
	wake := j.WakeAt()
	if wake == math.MaxInt64 {
		wake = 0
	}
	return fmt.Sprintf(form, j.State, j.Resumed, j.WaitsFor, j.Purpose, worker, j.Generation, j.Stage, j.Epoch, j.Attempt, j.Failures, j.Crashes, j.Kept, hand,
		awaits(m.awaits(j)), j.Kind, j.queue, j.Key, j.priority, j.Weight, j.args, j.checkpoint, j.progress, j.result, reason, j.runAt, wake, j.updated, j.finished)
}

func awaits(a *sojourn.Waiting) string {
	if a == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of %q, answered %q, until %d, beat %d, poll %d after %d", a.Mode, a.Keys, a.Answered, Micros(a.Until), Micros(a.Beat), Micros(a.Poll), a.Polls)
}

func (m *Model) awaits(j *Job) *sojourn.Waiting {
	if j.State != sojourn.Awaiting && j.Purpose != sojourn.PurposePoll {
		return nil
	}
	a := sojourn.Waiting{Mode: j.Wait.Mode, Keys: j.Wait.Keys, Polls: j.Wait.Polls}
	if len(a.Keys) == 0 && j.Key != "" {
		a.Keys = []string{j.Key}
	}
	for _, r := range m.Inbox.kept(j.ID) {
		if slices.Contains(a.Keys, r.Response.Key) && !slices.Contains(a.Answered, r.Response.Key) {
			a.Answered = append(a.Answered, r.Response.Key)
		}
	}
	for _, t := range []struct {
		us int64
		to *time.Time
	}{{j.waitUntil, &a.Until}, {j.beatUntil, &a.Beat}, {j.PollAt, &a.Poll}} {
		if t.us > 0 {
			*t.to = time.UnixMicro(t.us)
		}
	}
	return &a
}

// lastReason is the reason for the end of a live job's last attempt.
func (j *Job) lastReason() string {
	if j.Failures+j.Crashes == 0 {
		return ""
	}
	for _, e := range slices.Backward(j.History) {
		if e.Generation == j.Generation && e.Stage == j.Stage && e.Reason != "" && slices.Contains([]string{"error", "await", "lost", "timed_out", "responded"}, e.Outcome) {
			return e.Reason
		}
	}
	return ""
}

// Micros is a time in microseconds; 0 = none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
