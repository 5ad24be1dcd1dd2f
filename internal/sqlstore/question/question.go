// Package question stores the questions of waits for people, and reads what has become of them; see
// the public package ask and docs/decisions/071-the-page-of-a-person.md. A question belongs to the
// entry of the job's history with which the wait began. A transaction without questions has no
// statement of this package.
package question

import (
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/ask"
)

const (
	qAdd = `insert into sj_ask (job, seq, generation, stage, attempt, wait, asked_us, question)
		rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bytea)`
	qTrim = `delete from sj_ask where job = $1 and seq <= $2`
)

// QForget deletes the questions of a job that is deleted.
const QForget = `delete from sj_ask where job = $1`

// Add adds the question of a wait that has just begun to the write set, if there is one. l is the
// row of the job after the transition, whose history entry is the newest. Questions have the bound
// of the history, sojourn.MaxHistory, because what has become of them is read from it.
func Add(t *txn.Tx, l *jobrow.Row, question []byte) {
	if len(question) == 0 {
		return
	}
	s := jobrow.NewColumns(1, 6, 0, 1)
	s.Row(int64(l.ID)).Ints(int64(l.History), int64(l.Generation), int64(l.Stage), int64(l.Attempt), int64(l.Waits), t.Now).Bytes(question)
	t.AddColumns(qAdd, 0, "", s)
	if old := int64(l.History) - sojourn.MaxHistory; old > 0 {
		t.Add(qTrim, 0, "", int64(l.ID), old)
	}
}

// Asker reads questions by capabilities. Safe for concurrent use.
type Asker struct{ core *txn.Core }

// NewAsker makes the Asker of one store.
func NewAsker(c *txn.Core) *Asker { return &Asker{c} }

// ReadAsk reads the question of the wait that a capability names; see ask.Store. It reads nothing
// of the store before the capability was verified.
func (s *Asker) ReadAsk(ctx context.Context, token string) (out ask.Status, err error) {
	c, err := access.ParseCapability(s.core.Secret, token)
	if err != nil {
		return ask.Status{}, ask.NotFound()
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		v := view{Tx: t, of: c}
		out, err = v.read()
		return err
	})
	return out, err
}

// view reads the question of one capability.
type view struct {
	*txn.Tx
	of    access.Capability
	live  *jobrow.Row // nil: the job is not live
	asked asked
}

// asked is a row of sj_ask.
type asked struct {
	seq, at  int64 // seq is 0 if there is no row
	stage    int32
	question ask.Question
}

const (
	qAsked = `select seq, asked_us, stage, question from sj_ask where job = $1 and generation = $2 and attempt = $3 and wait = $4 order by seq desc limit 1`
	qFinal = `select state, reason, finished_us from sj_final where id = $1`
	qSince = `select ` + jobview.HistoryColumns + ` from sj_history where job = $1 and seq > $2 and generation = $3
		union all select ` + jobview.LastColumns + ` from sj_final where id = $1 and outcome <> '' and history > $2 and generation = $3 order by seq`
	qAttached = `select seq from sj_response where job = $1 and job > 0 and outcome = 2 and wait = $2 and progress = 0 and received_us >= $3 order by seq limit 1`
	qAnswer   = `select wait, failed, received_us, body from sj_response where seq = $1 and job = $2 and progress = 0`
)

var qLive = `select ` + jobrow.LiveColumns + ` from sj_live l join sj_job j on j.id = l.id where l.id = $1`

// load reads the rows of the question and of the live job.
func (v *view) load() error {
	if err := v.Read(qAsked, func(r sqldb.Row) (err error) {
		v.asked = asked{seq: r.Int(0), at: r.Int(1), stage: int32(r.Int(2))}
		v.asked.question, err = ask.Parse(r.Bytes(3))
		return err
	}, int64(v.of.Job), int64(v.of.Generation), int64(v.of.Attempt), int64(v.of.Wait)); err != nil {
		return err
	}
	return v.Read(qLive, func(r sqldb.Row) (err error) {
		v.live, err = v.Core.Caches.Decoder.Scan(r)
		return err
	}, int64(v.of.Job))
}

func (v *view) read() (ask.Status, error) {
	if err := v.load(); err != nil {
		return ask.Status{}, err
	}
	expired := !v.of.Until.IsZero() && v.Now >= jobrow.Micros(v.of.Until)
	current := v.live != nil && v.live.Generation == v.of.Generation && v.live.Attempt == v.of.Attempt && v.live.Waits == v.of.Wait
	if v.asked.seq == 0 {
		if current && !expired {
			return ask.Status{State: ask.NotAsked}, nil
		}
		return ask.Status{}, ask.NotFound()
	}
	out := ask.Status{Question: v.asked.question, AskedAt: jobrow.Time(v.asked.at)}
	err := v.outcome(&out, current, expired)
	if out.State != ask.Open && out.State != ask.Answered {
		out.Question = ask.Question{Title: out.Question.Title, Brand: out.Question.Brand}
	}
	return out, err
}

// outcome finds what has become of the question. An answer counts more than the state of the job,
// which may have ended since.
func (v *view) outcome(out *ask.Status, current, expired bool) error {
	ended, answered, err := v.ends()
	if err != nil {
		return err
	}
	var seq int64 // of the response
	if answered != nil {
		out.State, out.EndedAt = ask.Elsewhere, answered.EndedAt
		if _, err := fmt.Sscanf(answered.By, "response %d", &seq); err != nil {
			return nil // a poll step has answered it
		}
		return v.answer(out, seq)
	}
	if current && v.live.Kept > 0 { // with Policy.LateToInbox, a retry does not take it
		if seq, err = v.ReadInt(qAttached, int64(v.of.Job), int64(v.of.Wait), v.asked.at); err != nil {
			return err
		}
	}
	if seq > 0 {
		out.State = ask.Elsewhere
		return v.answer(out, seq)
	}
	switch {
	case current && expired:
		out.State, out.EndedAt = ask.Expired, v.of.Until.UTC()
	case current:
		out.State = ask.Open
		if until := jobrow.Earliest(v.live.WaitUntil, v.live.TimeoutAt, v.live.Deadline, jobrow.Micros(v.of.Until)); until < jobrow.Never {
			out.Until = jobrow.Time(until)
		}
	case v.live != nil:
		out.State = ask.Replaced
		if ended != nil {
			out.EndedAt = ended.EndedAt
		}
	default:
		return v.final(out, ended)
	}
	return nil
}

// ends returns the entry of the history that ended the wait, and the one with which a response or a
// poll has answered it; nil if there is none. After a timeout a response may still answer the wait,
// while the retry waits.
func (v *view) ends() (ended, answered *sojourn.HistoryEntry, err error) {
	err = v.Read(qSince, func(r sqldb.Row) error {
		e := jobview.ScanHistory(r)
		if ended == nil && e.State != sojourn.Awaiting {
			ended = &e
		}
		own := e.Attempt == v.of.Attempt && e.Stage == v.asked.stage
		if own && answered == nil && e.State != sojourn.Awaiting && (e.Outcome == "responded" || e.Outcome == string(sojourn.OutcomeAnswer)) {
			answered = &e
		}
		return nil
	}, int64(v.of.Job), v.asked.seq, int64(v.of.Generation))
	return ended, answered, err
}

// answer sets the answer of the response seq, if it came by the link. The link of an earlier
// attempt may have the same number of its wait; its response came before this question was asked.
func (v *view) answer(out *ask.Status, seq int64) error {
	return v.Read(qAnswer, func(r sqldb.Row) error {
		out.EndedAt = jobrow.Time(r.Int(2))
		if r.Int(0) != int64(v.of.Wait) || r.Int(1) != 0 || r.Int(2) < v.asked.at {
			return nil
		}
		out.State = ask.Answered
		a, err := ask.AnswerOf(&sojourn.Response{Body: r.Bytes(3)})
		if err == nil && out.Question.Choice(a.Value) != nil {
			out.Answer = &a
		}
		return nil
	}, seq, int64(v.of.Job))
}

// final sets the state for a job that has ended without an answer. ended is the entry that has
// ended the wait.
func (v *view) final(out *ask.Status, ended *sojourn.HistoryEntry) error {
	state, reason := sojourn.State(0), ""
	err := v.Read(qFinal, func(r sqldb.Row) error {
		state, reason, out.EndedAt = sojourn.State(r.Int(0)), r.Text(1), jobrow.Time(r.Int(2))
		return nil
	}, int64(v.of.Job))
	if err != nil {
		return err
	}
	if ended != nil {
		out.EndedAt, reason = ended.EndedAt, ended.Reason
	}
	switch {
	case ended != nil && ended.State == sojourn.Cancelled, ended == nil && state == sojourn.Cancelled:
		out.State = ask.Cancelled
	case reason == sojourn.ReasonTimeout, reason == sojourn.ReasonBeat, reason == sojourn.ReasonDeadline:
		out.State = ask.Expired
	default:
		out.State = ask.Closed
	}
	return nil
}
