package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// move is a step of the walk. good ones happen by themselves when nothing more goes wrong: claims,
// honest workers, the sweep; sweep ones happen even when no worker is left.
type move struct {
	name        string
	e           Event
	respond     int // 1 + the response that comes
	good, sweep bool
	disposes    bool // the handler is done with its taken responses
}

// lifeKey is a state of the walk. Policy, weight and id never change, and the wait is the scene's
// or none.
type lifeKey struct {
	state                                             sojourn.State
	purpose                                           sojourn.Purpose
	resumed, claimed, handler, open, given, lost, set bool
	waited                                            bool // capabilities of the first wait are stale
	attempt, failures, crashes, held, kept, inHand    int32
	stage, waitsFor                                   int32
	childrenDone                                      bool
	at                                                [maxSent]place
	seq                                               [maxSent]uint8 // of kept ones
	shown                                             [maxSent]bool  // of the taken ones
	poll                                              bool
}

func keyOf(l *life) lifeKey {
	r, seq, shown := &l.row, l.seq, l.shown
	for i, at := range l.at {
		if at != kept {
			seq[i] = 0
		}
		shown[i] = shown[i] && at == held
	}
	waited := len(r.Wait.Keys) > 0 || r.Wait.Within > 0
	return lifeKey{r.State, r.Purpose, r.Resumed, r.Claimed, r.RetryHandler, r.AttemptOpen, r.Given, r.NoPoll, waited, r.Waits > 0 || l.again,
		r.Attempt, r.Failures, r.Crashes, r.Held, r.Kept, r.InHand, r.Stage, r.WaitsFor, r.ChildrenDone, l.at, seq, shown, l.poll}
}

func moves(sc *walkScene) []move {
	again := sojourn.Outcome{Type: sojourn.OutcomeError, Verdict: sojourn.Verdict{Again: true}}
	ms := []move{
		{name: "claim", e: Event{Type: EventClaimed, RetryHandler: sc.handler}, good: true},
		{name: "complete", e: finish(sojourn.Outcome{Type: sojourn.OutcomeCompleted}), good: true, disposes: true},
		{name: "error", e: finish(sojourn.Outcome{Type: sojourn.OutcomeError, Reason: "r"})},
		{name: "error final", e: finish(sojourn.Outcome{Type: sojourn.OutcomeError, Reason: "r", Verdict: sojourn.Verdict{Final: true}})},
		{name: "again", e: finish(again), disposes: true},
		{name: "await", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sc.wait}), disposes: true},
		{name: "await in vain", e: Event{Type: EventFinished, Outcome: &sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sc.wait}, KeyConflict: true}},
		{name: "snooze", e: finish(sojourn.Outcome{Type: sojourn.OutcomeSnooze, Delay: time.Second})},
		{name: "hold", e: finish(sojourn.Outcome{Type: sojourn.OutcomeHold, Delay: time.Second})},
		{name: "hold of another queue", e: finish(sojourn.Outcome{Type: sojourn.OutcomeHold, Queue: "other", Delay: time.Second})},
		{name: "advance", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAdvance}), disposes: true},
		{name: "advance later", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAdvance, Delay: time.Second}), disposes: true},
		{name: "advance, blocked", e: finishWith(1, sojourn.Outcome{Type: sojourn.OutcomeAdvance, Delay: time.Second}), disposes: true},
		{name: "await jobs", e: finishWith(2, sojourn.Outcome{Type: sojourn.OutcomeAwaitJobs, Wait: sojourn.Wait{Within: time.Second}})},
		{name: "await no jobs", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAwaitJobs})},
		{name: "a job ends", e: parent(sojourn.Failed, sojourn.IgnoreFailure), good: true},
		{name: "abort", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAbort}), disposes: true},
		{name: "cancel by the handler", e: finish(sojourn.Outcome{Type: sojourn.OutcomeCancelled}), disposes: true},
		{name: "undecodable", e: finish(sojourn.Outcome{Type: sojourn.OutcomeUndecodable})},
		{name: "release", e: finish(sojourn.Outcome{Type: sojourn.OutcomeReleased})},
		{name: "decide retry", e: finish(sojourn.Outcome{Type: sojourn.OutcomeDecided}), good: true},
		{name: "decide final", e: finish(sojourn.Outcome{Type: sojourn.OutcomeDecided, Verdict: sojourn.Verdict{Final: true}}), good: true},
		{name: "decide again", e: finish(sojourn.Outcome{Type: sojourn.OutcomeDecided, Verdict: sojourn.Verdict{Again: true}}), disposes: true},
		{name: "no answer", e: finish(sojourn.Outcome{Type: sojourn.OutcomeNoAnswer}), good: true},
		{name: "answer", e: finish(sojourn.Outcome{Type: sojourn.OutcomeAnswer})},
		{name: "due", e: Event{Type: EventDue}, good: true, sweep: true},
		{name: "lease ends", e: lostEvent, good: true, sweep: true},
		{name: "timeout", e: timeoutEvent, good: true, sweep: true},
		{name: "decide overdue", e: Event{Type: EventDecideOverdue}, good: true, sweep: true},
		{name: "resume overdue", e: Event{Type: EventResumeOverdue}, good: true, sweep: true},
		{name: "deadline", e: Event{Type: EventDeadline}},
		{name: "cancel", e: Event{Type: EventCancel}},
		{name: "redrive", e: Event{Type: EventRedrive}},
		{name: "release by hand", e: Event{Type: EventRelease}},
		{name: "window closed", e: Event{Type: EventWindowClosed}},
	}
	for i := range sc.sent {
		ms = append(ms, move{name: fmt.Sprintf("respond r%d", i), respond: i + 1})
	}
	return ms
}

// stages is how many stages a job of the walk has.
const stages = 2

// walkScene is one scenario: two stages with two attempts and two crashes each, two responses.
type walkScene struct {
	scene
	name    string
	handler bool
	wait    sojourn.Wait
	start   Row
}

func walkScenes(l laws) []*walkScene {
	waits := map[string]sojourn.Wait{"own key": {Within: time.Minute}, "any": {Mode: sojourn.WaitAny, Keys: []string{"a", "b"}}, "all": {Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}}
	var out []*walkScene
	for _, wait := range []string{"own key", "any", "all", "own key, by links", "any, by links", "all, by links"} {
		keys, byLinks := strings.CutSuffix(wait, ", by links")
		for _, bits := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
			sc := &walkScene{scene: scene{laws: l, key: "own", sent: many(ok(0, "own"), ok(0, "own"))}, wait: waits[keys], handler: bits&1 != 0}
			switch {
			case byLinks:
				sc.sent = many(linked(0, 0), linked(0, 0))
			case wait != "own key":
				sc.sent = many(ok(0, "a"), ok(0, "b"))
			}
			sc.sent[1].Failed = bits&2 != 0
			sc.start = rowOf(max2(2, 2), weighs(int32(1-bits>>2&1)))
			if bits == 2 || bits == 7 {
				toInbox(&sc.start)
			}
			sc.name = fmt.Sprintf("wait for %s, retry handler %v, error response %v, weight %d, to the inbox %v",
				wait, sc.handler, sc.sent[1].Failed, sc.start.Weight, sc.start.Policy.InboxLate())
			out = append(out, sc)
		}
	}
	return out
}

// breach is a law that was broken, with the shortest way to it.
type breach struct {
	law, scene string
	way        []string
}

func (b *breach) String() string {
	return b.law + " (" + b.scene + "): " + strings.Join(b.way, " · ")
}

// walk visits every state that a scene can reach, breadth first, and stops at the first breach.
func (sc *walkScene) walk() (states int, found *breach) {
	all := []life{{row: sc.start}}
	index := map[lifeKey]int32{keyOf(&all[0]): 0}
	from, by := []int32{-1}, []int16{-1}
	ms := moves(sc)
	var good, sweep edges
	way := func(k int32, more ...string) (names []string) {
		for ; from[k] >= 0; k = from[k] {
			names = append(names, ms[by[k]].name)
		}
		slices.Reverse(names)
		return append(names, more...)
	}
	for k := int32(0); int(k) < len(all); k++ {
		for n := range ms {
			next := all[k]
			if err := sc.step(&next, ms[n]); errors.Is(err, errNotNow) {
				continue
			} else if err != nil {
				return len(all), &breach{err.Error(), sc.name, way(k, ms[n].name)}
			}
			key := keyOf(&next)
			to, seen := index[key]
			if !seen {
				to = int32(len(all))
				index[key] = to
				kept := next
				kept.last = nil
				all, from, by = append(all, kept), append(from, k), append(by, int16(n))
			}
			if law := sc.broken(&all[k], ms[n], &next); law != "" {
				return len(all), &breach{law, sc.name, way(k, ms[n].name)}
			}
			if ms[n].good {
				good.add(k, to)
			}
			if ms[n].sweep {
				sweep.add(k, to)
			}
		}
	}
	if k := good.stuck(len(all), func(k int) bool { return all[k].row.State.Final() }); k >= 0 {
		return len(all), &breach{"no way to a final state by claims, honest workers and the sweep", sc.name, way(k)}
	}
	if k := sweep.stuck(len(all), func(k int) bool { return all[k].row.Held == 0 && all[k].row.State != sojourn.Errored }); k >= 0 {
		return len(all), &breach{"no worker is left, and the sweep alone gives neither the weight back nor leaves errored", sc.name, way(k)}
	}
	return len(all), nil
}

var errNotNow = errors.New("this cannot happen now")

// step does m, or says that it cannot happen in this state.
func (sc *walkScene) step(l *life, m move) error {
	if m.respond > 0 {
		if l.at[m.respond-1] != unsent {
			return errNotNow
		}
		return sc.respond(l, m.respond-1)
	}
	if strings.HasPrefix(m.name, "advance") && l.row.Stage == stages-1 {
		return errNotNow
	}
	if m.name == "again" && (l.row.InHand == 0 || l.row.Purpose == sojourn.PurposePoll) {
		return errNotNow
	}
	if m.e.Type == EventFinished && l.row.State != sojourn.Running {
		return errNotNow // Decide says so too, but a refusal costs more than a step
	}
	e := m.e
	e.Answered = m.name == "answer" && l.row.Purpose == sojourn.PurposePoll && sc.answered(l)
	err := sc.do(l, e)
	if sojourn.ErrorCode(err) == sojourn.CodeInvalid {
		return errNotNow
	}
	return err
}

// edges are the steps of one sort, to be followed backwards.
type edges struct{ from, to []int32 }

func (e *edges) add(from, to int32) { e.from, e.to = append(e.from, from), append(e.to, to) }

// stuck is the first state from which no way along the edges leads to a goal; -1 if there is none.
func (e *edges) stuck(states int, goal func(k int) bool) int32 {
	back := make([][]int32, states)
	for i, to := range e.to {
		back[to] = append(back[to], e.from[i])
	}
	reached := make([]bool, states)
	var todo []int32
	for k := range states {
		if goal(k) {
			reached[k], todo = true, append(todo, int32(k))
		}
	}
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range back[k] {
			if !reached[p] {
				reached[p], todo = true, append(todo, p)
			}
		}
	}
	return int32(slices.Index(reached, false))
}

// A job's life, walked to its end in every direction: no law is broken in any state, and every
// state has a way out.
func TestWalkEveryLife(t *testing.T) {
	if n := reflect.TypeFor[Row]().NumField(); n != 22 {
		t.Fatalf("Row has %d fields: let keyOf and the laws know of the new one", n)
	}
	began, total := time.Now(), 0
	for _, sc := range walkScenes(ours()) {
		n, found := sc.walk()
		if found != nil {
			t.Fatal(found)
		}
		total += n
	}
	t.Logf("%d scenes, %d states, no breach, in %v", len(walkScenes(ours())), total, time.Since(began).Round(time.Millisecond))
}
