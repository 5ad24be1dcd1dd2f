package postgres

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// job makes a random job.
func (w *twins) job() sojourn.Job {
	p := sojourn.Policy{Backoff: sojourn.Backoff{First: time.Second, Jitter: -1}, MaxAttempts: oneOf[int32](w, 1, 3, 5), Timeout: time.Hour}
	if w.chance(10) {
		p.Deadline = 3 * time.Hour
	}
	if w.chance(10) {
		p.KeepKey = time.Hour
	}
	if w.chance(10) {
		p.LateToInbox = new(true)
	}
	if w.chance(5) {
		p.NoExtend = new(true)
	}
	if w.chance(10) {
		p.OnLost = sojourn.Fail
	}
	options := []sojourn.Option{sojourn.WithPolicy(p), sojourn.Queue(w.line())}
	if w.chance(70) {
		options = append(options, sojourn.Key(w.key()))
	}
	if w.chance(20) {
		options = append(options, sojourn.Delay(time.Duration(w.dice.IntN(3000))*time.Second))
	}
	if w.chance(30) {
		options = append(options, sojourn.OnKeyConflict(oneOf(w, sojourn.ReturnError, sojourn.Replace)))
	}
	if w.chance(20) {
		options = append(options, sojourn.Priority(int32(w.dice.IntN(5))), sojourn.Weight(int32(w.dice.IntN(3))), sojourn.Tags("a", "b"))
	}
	j := *sojourn.NewJob(w.kind(), []byte(w.text()), options...)
	j.ID, j.ContentType = w.id(), w.contentType()
	return j
}

func (w *twins) enqueue() {
	var jobs []sojourn.Job
	for range 1 + w.dice.IntN(4) {
		if len(w.jobs) > 0 && w.chance(15) {
			jobs = append(jobs, oneOf(w, w.jobs...))
			continue
		}
		j := w.job()
		jobs, w.jobs = append(jobs, j), keep(w, w.jobs, j)
	}
	partial := w.chance(50)
	w.compare("Enqueue", func(s driver.Store, _ int) any {
		done, err := s.Enqueue(w.ctx, append([]sojourn.Job{}, jobs...), partial)
		var errs []error
		for i := range done {
			errs = append(errs, done[i].Err)
		}
		return []any{told(done, err), errorTexts(errs)}
	})
}

func (w *twins) claim() {
	r := driver.ClaimRequest{Worker: fmt.Sprint("w", w.dice.IntN(differWorkers)), Queues: []string{"default", "slow"}, Kinds: []string{"charge", "mail"},
		Max: 1 + w.dice.IntN(4), Capacity: int64(w.dice.IntN(6)), Lease: 30 * time.Second}
	if w.chance(50) {
		r.Decidable = []string{"mail"}
	}
	if w.chance(60) {
		r.Pollable = r.Kinds
	}
	if w.chance(20) {
		r.Share = map[string]int{"default": 2}
	}
	if w.chance(10) && w.last.Worker != "" {
		r = w.last
	} else {
		w.claims[r.Worker]++
		r.Number = w.claims[r.Worker]
	}
	w.last = r
	var found [2][]driver.Claimed
	w.compare("Claim", func(s driver.Store, side int) any {
		jobs, err := s.Claim(w.ctx, r)
		found[side] = append([]driver.Claimed{}, jobs...)
		return told(jobs, err)
	})
	for i := range min(len(found[0]), len(found[1])) {
		a, b := found[0][i], found[1][i]
		w.steps = keep(w, w.steps, twinStep{[2]sojourn.Lease{a.Lease, b.Lease}, a.Purpose})
		w.tally[a.Purpose.String()]++
		w.tokens = keep(w, w.tokens, [2]string{a.Job.Token, b.Job.Token})
	}
}

// lease is one of those that were given; the newest ones mostly stand.
func (w *twins) lease() (l twinStep, ok bool) {
	if len(w.steps) == 0 {
		return l, false
	}
	return oneOf(w, w.steps...), true
}

func (w *twins) outcome(purpose sojourn.Purpose) sojourn.Outcome {
	if purpose == sojourn.PurposePoll && w.chance(80) {
		return sojourn.Outcome{Type: oneOf(w, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer, sojourn.OutcomeReleased), Result: []byte(w.text())}
	}
	o := sojourn.Outcome{Type: oneOf(w, sojourn.OutcomeCompleted, sojourn.OutcomeError, sojourn.OutcomeAwait, sojourn.OutcomeAwait, sojourn.OutcomeAwait,
		sojourn.OutcomeSnooze, sojourn.OutcomeAbort, sojourn.OutcomeCancelled, sojourn.OutcomeReleased, sojourn.OutcomeDecided, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer)}
	switch o.Type {
	case sojourn.OutcomeCompleted:
		o.Result, o.ResultType = bytes.Repeat([]byte{0, 255}, oneOf(w, 0, 5, 600)), w.text()
		if w.chance(20) {
			o.Next = []sojourn.Job{w.job()}
		}
	case sojourn.OutcomeAnswer:
		o.Result, o.ResultType = []byte(w.text()), w.text()
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeCancelled, sojourn.OutcomeNoAnswer:
		o.Reason, o.Text = w.text(), w.text()
		if w.chance(20) && o.Type == sojourn.OutcomeError {
			o.Verdict.Checkpoint = []byte("c")
		}
	case sojourn.OutcomeAwait:
		switch w.dice.IntN(4) {
		case 0:
			o.Wait.Keys = []string{w.key(), w.key() + " too"}
			o.Wait.Mode = oneOf(w, sojourn.WaitAny, sojourn.WaitAll)
		case 1:
			o.Wait.Within = 10 * time.Minute
		}
		if w.chance(60) {
			o.Wait.Poll = sojourn.Backoff{First: time.Second, Factor: 2, Limit: time.Minute, Jitter: -1}
		}
		if w.chance(30) {
			o.Wait.Beat = 30 * time.Second
		}
	case sojourn.OutcomeSnooze:
		o.Delay = time.Minute
	}
	if w.chance(20) {
		o.Log = []sojourn.LogLine{{Level: "INFO", Text: w.text()}}
	}
	return o
}

func (w *twins) finish() {
	var both [2][]sojourn.Outcome
	for range 1 + w.dice.IntN(3) {
		l, ok := w.lease()
		if !ok {
			return
		}
		o := w.outcome(l.purpose)
		for side := range both {
			o.Lease = l.lease[side]
			both[side] = append(both[side], o)
		}
	}
	w.compare("Finish", func(s driver.Store, side int) any {
		done, err := s.Finish(w.ctx, both[side])
		var errs []error
		for i := range done {
			errs = append(errs, done[i].Err)
			done[i].Err = nil
		}
		return []any{told(done, err), errorTexts(errs)}
	})
}

func (w *twins) save() {
	l, ok := w.lease()
	if !ok {
		return
	}
	item := driver.Saved{Log: []sojourn.LogLine{{Level: w.text(), Text: w.text()}}}
	if w.chance(50) {
		item.Checkpoint = []byte(w.text())
	}
	if w.chance(50) {
		text := w.text()
		item.Progress = &text
	}
	if w.chance(30) {
		item.Key = w.key()
	}
	w.compare("Save", func(s driver.Store, side int) any {
		item.Lease = l.lease[side]
		answers, err := s.Save(w.ctx, []driver.Saved{item})
		return told(extendedTexts(answers), err)
	})
}

func extendedTexts(answers []driver.Extended) (out []string) {
	for _, e := range answers {
		out = append(out, fmt.Sprint(e.Until.UnixMicro(), e.Reason, errorTexts([]error{e.Err})))
	}
	return out
}

func (w *twins) extend() {
	if l, ok := w.lease(); ok {
		w.compare("Extend", func(s driver.Store, side int) any {
			answers, err := s.Extend(w.ctx, []sojourn.Lease{l.lease[side]})
			return told(extendedTexts(answers), err)
		})
	}
}

func (w *twins) respond() {
	var both [2][]sojourn.Response
	for range 1 + w.dice.IntN(3) {
		r := sojourn.Response{Kind: w.kind(), Key: w.key(), Source: "s", MessageID: fmt.Sprint("m", w.dice.Int32()), Body: []byte(w.text()), ContentType: w.contentType()}
		switch {
		case w.chance(15) && len(w.asked) > 0:
			r = oneOf(w, w.asked...)
		case w.chance(20):
			r.Key += " too"
		case w.chance(10):
			r.Progress = true
		case w.chance(10):
			r.Failed, r.Reason, r.Error = true, w.text(), w.text()
		case w.chance(10) && len(w.jobs) > 0:
			r.Kind, r.Key, r.Job = "", "", oneOf(w, w.jobs...).ID
		}
		tokens := [2]string{}
		if w.chance(10) && len(w.tokens) > 0 {
			tokens = oneOf(w, w.tokens...)
			r.Kind, r.Key, r.Job = "", "", 0
		} else {
			w.asked = keep(w, w.asked, r)
		}
		for side := range both {
			r.Token = tokens[side]
			both[side] = append(both[side], r)
		}
	}
	w.compare("Respond", func(s driver.Store, side int) any { return told(s.Respond(w.ctx, both[side])) })
}

// editInbox edits one of the newest responses, in any state, as an operator does.
func (w *twins) editInbox() {
	newest, err := w.stores[0].Inbox(w.ctx, sojourn.InboxFilter{Limit: 20})
	if err != nil {
		w.Fatal(err)
	}
	e := rules.InboxEdit{Seq: 1 << 40, Action: oneOf(w, sojourn.InboxMatch, sojourn.InboxRetry, sojourn.InboxDiscard), By: w.text()}
	if len(newest) > 0 && !w.chance(3) {
		e.Seq = oneOf(w, newest...).Seq
	}
	switch {
	case e.Action != sojourn.InboxMatch:
	case w.chance(50) && len(w.jobs) > 0:
		e.Job = oneOf(w, w.jobs...).ID
	default:
		e.Kind, e.Key = w.kind(), w.key()
	}
	w.compare(fmt.Sprint("EditInbox ", e.Action), func(s driver.Store, _ int) any {
		return told(s.EditInbox(w.ctx, e.Seq, e.Action, e.To()))
	})
}

func (w *twins) edit() {
	f := sojourn.Filter{Limit: 1 + w.dice.IntN(3)}
	switch w.dice.IntN(4) {
	case 0:
		f.Kind, f.Key = w.kind(), w.key()
	case 1:
		f.States = []sojourn.State{oneOf(w, sojourn.Failed, sojourn.Cancelled, sojourn.Scheduled, sojourn.Awaiting)}
	default:
		f.Newest, f.Queue = w.chance(50), w.line()
	}
	e := sojourn.Edit{Action: oneOf(w, sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditRedrive, sojourn.EditPurge, sojourn.EditChange),
		By: w.text(), Reason: w.text()}
	if e.Action == sojourn.EditChange {
		priority, queue, tags := int32(w.dice.IntN(9)), w.line(), []string{"c"}
		e.Priority, e.Queue, e.Tags = &priority, &queue, &tags
	}
	w.compare(fmt.Sprint("Edit ", e.Action), func(s driver.Store, _ int) any {
		done, err := s.Edit(w.ctx, f, e)
		var errs []error
		for i := range done.Items {
			errs = append(errs, done.Items[i].Err)
			done.Items[i].Err = nil
		}
		return []any{told(done, err), errorTexts(errs)}
	})
}

func (w *twins) queue() {
	q := sojourn.QueueSettings{Paused: w.chance(30), Retention: sojourn.Retention{Age: time.Hour, Count: 20, FailedAge: 2 * time.Hour}}
	name := w.line()
	w.compare("SetQueue", func(s driver.Store, _ int) any { return told(nil, sojourn.NewClient(s).Queues().Set(w.ctx, name, q)) })
}

func (w *twins) sweep() {
	limit := oneOf(w, 3, 1000)
	w.compare("Sweep", func(s driver.Store, _ int) any { return told(s.Sweep(w.ctx, limit)) })
}

// contentType returns a content type whose bytes are not parsed. A response that is refused for its
// bytes leaves a gap in the numbers of PostgreSQL.
func (w *twins) contentType() string {
	return oneOf(w, "text/plain", "application/octet-stream", "text/csv; charset=utf-8")
}
