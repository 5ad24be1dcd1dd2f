package rules

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// laws are the two functions that make a job's life. The walk also runs broken ones, to show that
// it finds them.
type laws struct {
	decide func(Row, Event) (Transition, error)
	match  func(Row, string, []KeptResponse) Matched
}

func ours() laws { return laws{Decide, Match} }

// scene is what stays the same in a job's life: its own key, and what may be sent to it.
type scene struct {
	laws
	key  string
	sent []KeptResponse
}

// place is where a response is.
type place uint8

const (
	unsent place = iota
	kept         // attached to the job, in order of arrival
	held         // in the job's hands
	done         // applied and disposed of, or used up
	late
	stale
)

const maxSent = 4

// life is a job with its responses, as a store would keep them, but for clocks and bytes.
type life struct {
	row   Row
	at    [maxSent]place
	seq   [maxSent]uint8 // order of arrival while kept
	shown [maxSent]bool  // a handler was started with it
	poll  bool           // the answer of a poll step is taken
	again bool           // it was redriven: another generation
	count uint8
	last  []Transition // of the last event, with what Match did after it; not part of the state
}

// do is one transaction: the event, then Match until it finds nothing more.
func (s *scene) do(l *life, e Event) error {
	t, err := s.decide(l.row, e)
	if err != nil {
		return err
	}
	l.last, l.again = nil, l.again || e.Type == EventRedrive
	s.apply(l, t, e.Type == EventFinished && t.To.InHand > 0 && l.row.Purpose == sojourn.PurposePoll)
	if e.Type == EventClaimed && l.row.Given {
		for i := range l.at {
			l.shown[i] = l.shown[i] || l.at[i] == held
		}
	}
	return s.settle(l)
}

func (s *scene) apply(l *life, t Transition, polled bool) {
	dropped := l.row.InHand > 0 && t.To.InHand == 0
	for i := range l.at {
		switch {
		case l.at[i] == held && t.HandLate, l.at[i] == kept && t.KeptLate:
			l.at[i] = late
		case l.at[i] == held && dropped:
			l.at[i] = done
		}
	}
	l.poll = t.To.InHand > 0 && (l.poll || polled)
	l.row = t.To
	l.last = append(l.last, t)
}

func (s *scene) settle(l *life) error {
	for range 2 * maxSent {
		m := s.match(l.row, s.key, s.kept(l))
		if !m.Found() {
			return nil
		}
		move := func(seqs []int64, to place) {
			for i := range l.at {
				if l.at[i] == kept && slices.Contains(seqs, int64(l.seq[i])) {
					l.at[i] = to
				}
			}
		}
		move(m.UsedUp, done)
		move(m.Late, late)
		move(m.Stale, stale)
		s.apply(l, m.Transition, false)
		move(m.Take, held)
	}
	return fmt.Errorf("Match does not come to an end")
}

func (s *scene) kept(l *life) []KeptResponse {
	var out []KeptResponse
	for n := uint8(1); n <= l.count; n++ {
		for i := range s.sent {
			if l.at[i] == kept && l.seq[i] == n {
				k := s.sent[i]
				k.Seq = int64(n)
				out = append(out, k)
			}
		}
	}
	return out
}

// respond is tr:R5, tr:R3 for a final job, and tr:R4: all capabilities of a scene were given out in
// attempt 1 of generation 1.
func (s *scene) respond(l *life, i int) error {
	if l.row.State.Final() {
		l.at[i] = late
		return nil
	}
	if r := s.sent[i]; r.ByToken && (l.again || l.row.Attempt != 1 || l.row.Waits != r.Wait) {
		l.at[i], l.last = stale, nil
		return nil
	}
	l.count++
	l.at[i], l.seq[i] = kept, l.count
	l.row.Kept++
	l.last = nil
	return s.settle(l)
}

// answered is what a store finds out before it finishes a poll step: would a kept response end the
// wait?
func (s *scene) answered(l *life) bool {
	r := l.row
	r.State, r.Purpose = sojourn.Awaiting, sojourn.NoPurpose
	return s.match(r, s.key, s.kept(l)).Found()
}

// trace runs one story of the rules; every step must be possible unless it is refused on purpose.
type trace struct {
	t *testing.T
	scene
	life
}

// begin is a job of weight 1 that was just enqueued, with up to four responses that may come, all
// under its own key.
func begin(t *testing.T, mods ...rowMod) *trace {
	own := ok(0, "own")
	return &trace{t: t, scene: scene{laws: ours(), key: "own", sent: []KeptResponse{own, own, own, own}},
		life: life{row: rowOf(append([]rowMod{weighs(1)}, mods...)...)}}
}

func (tr *trace) then(e Event) *trace {
	tr.t.Helper()
	if err := tr.do(&tr.life, e); err != nil {
		tr.t.Fatal(err)
	}
	return tr
}

func (tr *trace) claim() *trace { tr.t.Helper(); return tr.then(Event{Type: EventClaimed}) }
func (tr *trace) claimDeciding() *trace {
	tr.t.Helper()
	return tr.then(Event{Type: EventClaimed, RetryHandler: true})
}
func (tr *trace) say(o sojourn.OutcomeType) *trace {
	tr.t.Helper()
	return tr.then(finish(sojourn.Outcome{Type: o}))
}
func (tr *trace) await(w sojourn.Wait) *trace {
	tr.t.Helper()
	return tr.then(finish(sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: w}))
}
func (tr *trace) event(e EventType) *trace { tr.t.Helper(); return tr.then(Event{Type: e}) }

func (tr *trace) answer(i int) *trace {
	tr.t.Helper()
	if err := tr.respond(&tr.life, i); err != nil {
		tr.t.Fatal(err)
	}
	return tr
}

func (tr *trace) refuses(e Event) *trace {
	tr.t.Helper()
	before := tr.row
	if err := tr.do(&tr.life, e); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		tr.t.Errorf("event %d in state %s: %v, want a refusal", e.Type, before.State, err)
	}
	if d := differences(tr.row, before); len(d) > 0 {
		tr.t.Errorf("refused, but changed: %v", d)
	}
	return tr
}

// stands checks the state (with its purpose or privilege, as in "running resume" or "ready
// resumed") and where the responses are.
func (tr *trace) stands(state string, places ...place) *trace {
	tr.t.Helper()
	got := tr.row.State.String()
	if tr.row.Purpose != sojourn.NoPurpose {
		got += " " + tr.row.Purpose.String()
	}
	if tr.row.Resumed {
		got += " resumed"
	}
	if got != state {
		tr.t.Fatalf("the job is %s, want %s", got, state)
	}
	for i, want := range places {
		if tr.at[i] != want {
			tr.t.Fatalf("response %d is at %d, want %d (the job is %s)", i, tr.at[i], want, state)
		}
	}
	return tr
}

func (tr *trace) rules(ids ...string) *trace {
	tr.t.Helper()
	var got []string
	for _, t := range tr.last {
		got = append(got, t.Rule)
	}
	if !slices.Equal(got, ids) {
		tr.t.Fatalf("rules %v, want %v", got, ids)
	}
	return tr
}

func (tr *trace) counts(attempt, failures, crashes int32) *trace {
	tr.t.Helper()
	if r := tr.row; r.Attempt != attempt || r.Failures != failures || r.Crashes != crashes {
		tr.t.Fatalf("attempt %d, failures %d, crashes %d; want %d, %d, %d", r.Attempt, r.Failures, r.Crashes, attempt, failures, crashes)
	}
	return tr
}

func (tr *trace) weight(held int32) *trace {
	tr.t.Helper()
	if tr.row.Held != held {
		tr.t.Fatalf("holds %d, want %d (the job is %s)", tr.row.Held, held, tr.row.State)
	}
	return tr
}
