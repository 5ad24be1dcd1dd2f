package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
)

// inboxEdit predicts the answer of EditInbox, or the code of its refusal.
func (m *model) inboxEdit(e rules.InboxEdit) (sojourn.Responded, string) {
	old := m.inbox[e.Seq]
	if old == nil {
		return sojourn.Responded{}, sojourn.CodeNotFound
	}
	if e.Action == sojourn.InboxDiscard {
		return m.discard(old)
	}
	kept := old.outcome == sojourn.Early && old.job > 0
	if old.outcome == sojourn.Applied || kept || old.outcome == sojourn.Early && e.Action == sojourn.InboxRetry {
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	r := old.r
	r.PerKey, r.KeepConflict = false, false
	r.Kind, r.Key, r.Job, r.Token, r.Park, r.TTL, r.MessageID = "", "", 0, "", false, 0, fmt.Sprint("replay:", old.seq)
	switch {
	case e.Action == sojourn.InboxMatch && e.Job > 0:
		r.Job, r.MessageID = e.Job, fmt.Sprint(r.MessageID, ":", e.Job)
	case e.Action == sojourn.InboxMatch:
		r.Kind, r.Key, r.MessageID = e.Kind, e.Key, fmt.Sprintf("%s:%x", r.MessageID, sha256.Sum256([]byte(e.Kind+"\x00"+e.Key)))
	case old.r.Key != "":
		r.Kind, r.Key = old.r.Kind, old.r.Key
	case old.job > 0:
		r.Job = old.job
	default:
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	if old.outcome == sojourn.Parked || old.outcome == sojourn.Conflicting && !old.r.Failed {
		r.Reason, r.Error = "", ""
	}
	answer := m.respond(r, nil)
	if old.replay = answer.Seq; old.outcome == sojourn.Early {
		old.outcome, old.expires = sojourn.Unmatched, m.now+sojourn.DefaultInboxKeep.Microseconds()
	}
	return answer, ""
}

// discard puts a response away, from a job that keeps it too.
func (m *model) discard(old *message) (sojourn.Responded, string) {
	if old.outcome == sojourn.Applied {
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	answer := sojourn.Responded{Outcome: sojourn.Discarded, Job: old.job, Seq: old.seq}
	if old.outcome == sojourn.Discarded {
		return answer, ""
	}
	keeper := m.jobs[old.job]
	if old.outcome != sojourn.Early {
		keeper = nil
	}
	if old.outcome = sojourn.Discarded; old.job == 0 {
		old.expires = m.now + sojourn.DefaultInboxKeep.Microseconds()
	}
	if keeper != nil {
		keeper.Kept--
		keeper.updated = m.now
		m.touched[keeper.ID] = true
		m.match(keeper)
	}
	return answer, ""
}

// editedInbox is the answer of EditInbox, or the code of its refusal.
type editedInbox struct {
	Answer sojourn.Responded
	Code   string
}

func (r *run) editInbox(e rules.InboxEdit) {
	f := r.fault(faulty.Lost, faulty.Down, faulty.Twice)
	got, ok := attempt(r, fmt.Sprintf("EditInbox %s response %d, job %d, key %s/%s", e.Action, e.Seq, e.Job, e.Kind, e.Key), f,
		func() editedInbox { answer, code := r.m.inboxEdit(e); return editedInbox{answer, code} },
		func() (editedInbox, error) {
			answer, err := r.store.EditInbox(r.ctx, e.Seq, e.Action, e.To())
			if code := sojourn.ErrorCode(err); f != faulty.Lost && f != faulty.Down && code != "" {
				return editedInbox{Code: code}, nil
			}
			return editedInbox{Answer: answer}, err
		},
		func() { r.editInbox(e) },
		func(got, want editedInbox) string {
			if got != want {
				return fmt.Sprintf("answered %+v, want %+v", got, want)
			}
			return ""
		})
	if ok && got.Code == "" { // no job may be given it from now on
		r.ledger.disposed[e.Seq] = e.Action + " by a person"
	}
}

// editInboxSome edits the inbox as an operator does: mostly responses without a job, now and then
// responses that a job has taken or attached.
func (r actor) editInboxSome() {
	all := r.m.responses(func(*message) bool { return true })
	lying := slices.DeleteFunc(slices.Clone(all), func(s *message) bool { return s.outcome == sojourn.Applied })
	if len(lying) == 0 || r.chance(10) {
		lying = all
	}
	e := rules.InboxEdit{Seq: int64(1 + r.n(9)), Action: oneOf(r.dice, sojourn.InboxMatch, sojourn.InboxMatch, sojourn.InboxRetry, sojourn.InboxDiscard), By: "anna"}
	if len(lying) > 0 {
		e.Seq = oneOf(r.dice, lying[max(len(lying)-10, 0):]...).seq
	}
	if e.Action == sojourn.InboxMatch {
		to := r.m.that(func(j *job) bool { return j.State.Live() })
		switch {
		case len(to) > 0 && r.chance(50):
			e.Job = oneOf(r.dice, to...).ID
		case len(r.jobs) > 0 && r.chance(20):
			e.Job = oneOf(r.dice, r.jobs...).ID
		default:
			e.Kind, e.Key = oneOf(r.dice, kinds...), oneOf(r.dice, "k1", "k2", "k3", "a1", "a3", "a5", "nobody")
		}
	}
	r.editInbox(e)
}

// capability is the target that a token names.
type capability struct {
	job                       sojourn.ID
	generation, attempt, wait int32
}
