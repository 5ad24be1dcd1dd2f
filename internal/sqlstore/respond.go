package sqlstore

import (
	"cmp"
	"context"

	"github.com/sojourn-queue/sojourn"
)

type respondAnswer struct {
	done    []sojourn.Responded
	refused error
}

var stepRespond = eachStep("respond", func(t *tx, rs []sojourn.Response) (respondAnswer, error) {
	targets := make([]target, len(rs))
	for i := range rs { // every refusal comes before the first write
		var err error
		if targets[i], err = t.aim(&rs[i]); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return respondAnswer{}, err
			}
			return respondAnswer{refused: sojourn.AtIndex(i, err)}, nil
		}
	}
	a := respondAnswer{done: make([]sojourn.Responded, len(rs))}
	for i := range rs {
		var err error
		if a.done[i], err = t.respondOne(&rs[i], targets[i]); err != nil {
			return respondAnswer{}, err
		}
	}
	return a, nil
})

// Respond stores responses and matches them; see sojourn.Store.
func (s *Store) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	if len(rs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("responses", "%d responses exceed the limit of %d a call; split them", len(rs), sojourn.MaxBatch)
	}
	if len(rs) == 0 {
		return nil, nil
	}
	a, err := do[respondAnswer](ctx, s, classFinish, stepRespond, len(rs), rs)
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// target is whom a response addresses.
type target struct {
	id                  sojourn.ID // 0: whoever has the key
	token               bool
	generation, attempt int32 // of a token
	expired             bool  // the token
}

// aim checks a response and finds out whom it addresses, without looking at the job's state.
func (t *tx) aim(r *sojourn.Response) (target, error) {
	if err := r.Validate(t.s.cfg.MaxBytes); err != nil {
		return target{}, err
	}
	if r.MessageID == "" {
		return target{}, sojourn.Invalid("message_id", "is empty; Client.Respond makes one, so that a repeated call is recognised")
	}
	if r.Token != "" {
		c, err := sojourn.ParseToken(t.s.secret, r.Token)
		return target{c.Job, true, c.Generation, c.Attempt, !c.Until.IsZero() && t.now >= c.Until.UnixMicro()}, err
	}
	if r.Job == 0 {
		return target{}, nil
	}
	next, err := t.nextID()
	if err == nil && int64(r.Job) >= next {
		err = sojourn.NotFound("no job has ever had the id %d", r.Job)
	}
	return target{id: r.Job}, err
}

const (
	qMessage    = `select seq from sj_message where source = $1 and message_id = $2`
	qAddMessage = `insert into sj_message (source, message_id, seq, at_us) values ($1, $2, $3, $4)`
	qDuplicate  = `update sj_response set duplicates = duplicates + 1 where seq = $1`
	qJobOfSeq   = `select job from sj_response where seq = $1`
)

// respondOne stores one response and gives it to its job: R1-R5.
func (t *tx) respondOne(r *sojourn.Response, to target) (sojourn.Responded, error) {
	first, err := t.num(qMessage, r.Source, r.MessageID)
	if err != nil {
		return sojourn.Responded{}, err
	}
	if first > 0 {
		if _, err := t.exec(qDuplicate, first); err != nil {
			return sojourn.Responded{}, err
		}
		job, err := t.num(qJobOfSeq, first)
		return sojourn.Responded{Outcome: sojourn.Duplicate, Job: sojourn.ID(job), Seq: first}, err
	}
	seq, err := t.num(qNextResponse)
	if err != nil {
		return sojourn.Responded{}, err
	}
	if _, err := t.exec(qAddMessage, r.Source, r.MessageID, seq, t.now); err != nil {
		return sojourn.Responded{}, err
	}
	if to.id == 0 && !r.Park {
		err = t.query(qKey, func(row Row) error { to.id = sojourn.ID(row.Int(0)); return nil }, r.Kind, r.Key)
		if err != nil {
			return sojourn.Responded{}, err
		}
	}
	var l *live
	if to.id != 0 {
		if l, err = t.loadOne(to.id); err != nil {
			return sojourn.Responded{}, err
		}
	}
	outcome := outcomeFor(r, l, to)
	if r.Park {
		outcome = outParked
	}
	if err := t.addResponse(r, seq, t.stored(r, outcome, l, to)); err != nil {
		return sojourn.Responded{}, err
	}
	answer := sojourn.Responded{Outcome: outcomeCodes[outcome], Job: to.id, Seq: seq}
	if l == nil && outcome == outEarly {
		t.mayBeUnseen(r.Kind, r.Key)
	}
	if r.Progress && outcome == outApplied {
		return answer, t.progress(l, string(r.Body))
	}
	if l == nil || outcome != outEarly {
		return answer, nil
	}
	now := *l
	now.Kept++
	if err := t.save(l, &now); err != nil {
		return answer, err
	}
	_, became, err := t.match(&now)
	if o, ok := became[seq]; ok {
		answer.Outcome = o
	}
	return answer, err
}

// progress stores a sign of life, and lets the beat of the wait start anew where one runs: R6.
func (t *tx) progress(l *live, text string) error {
	now := *l
	if l.beatUntil > 0 {
		now.beatUntil = t.inTime(l.Wait.Beat)
	}
	if text != "" {
		if err := t.saveData(&now, nil, &text); err != nil {
			return err
		}
	}
	return t.save(l, &now)
}

// outcomeFor is what a response is before Match looks at it. Progress is never kept: it would answer the next wait.
func outcomeFor(r *sojourn.Response, l *live, to target) int64 {
	switch {
	case l == nil && to.id == 0 && r.Progress:
		return outUnmatched
	case l == nil && to.id == 0:
		return outEarly // R2
	case l == nil:
		return outLate // R3: the job that had the key is final, or gone
	case to.expired, to.token && (to.generation != l.generation || to.attempt != l.Attempt):
		return outStale // R4
	case r.Progress && l.AttemptOpen && (l.State == sojourn.Running || l.State == sojourn.Awaiting):
		return outApplied // R6
	case r.Progress:
		return outLate // nobody waits for its sender
	}
	return outEarly // R5: kept
}

const qAddResponse = `insert into sj_response (seq, source, message_id, kind, key, job, generation, outcome, in_hand, failed, progress, reason, error, content_type,
	received_us, expires_us, duplicates, body) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, $17)`

// stored is what a store adds to a response.
type stored struct {
	outcome    int64
	inHand     bool
	job        sojourn.ID
	generation int32
	expires    int64
}

func (t *tx) stored(r *sojourn.Response, outcome int64, l *live, to target) stored {
	s := stored{outcome: outcome, job: to.id}
	switch {
	case l != nil:
		s.generation = l.generation
	case outcome == outEarly:
		s.expires = t.now + cmp.Or(r.TTL, t.s.cfg.InboxTTL).Microseconds()
	default: // pruned with its job, or, if that is gone or there is none, by its age
		s.expires = t.now + sojourn.DefaultInboxKeep.Microseconds()
	}
	return s
}

func (t *tx) addResponse(r *sojourn.Response, seq int64, s stored) error {
	reason := sojourn.Cut(r.Reason, sojourn.MaxReason)
	if r.Failed && reason == "" {
		reason = "response"
	}
	_, err := t.exec(qAddResponse, seq, r.Source, r.MessageID, r.Kind, r.Key, int64(s.job), int64(s.generation), s.outcome, s.inHand, r.Failed, r.Progress,
		reason, []byte(sojourn.Cut(r.Error, sojourn.MaxError)), r.ContentType, t.now, s.expires, r.Body)
	return err
}
