package sim

import (
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/model"
)

// editedInbox is the answer of EditInbox, or the code of its refusal.
type editedInbox struct {
	Answer sojourn.Responded
	Code   string
}

func (r *run) editInbox(e rules.InboxEdit) {
	f := r.fault(faulty.Lost, faulty.Down, faulty.Twice)
	got, ok := attempt(r, fmt.Sprintf("EditInbox %s response %d, job %d, key %s/%s", e.Action, e.Seq, e.Job, e.Kind, e.Key), f,
		func() editedInbox { answer, code := model.Edits(r.m).InboxEdit(e); return editedInbox{answer, code} },
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
	all := r.m.Inbox.Responses(func(*model.Message) bool { return true })
	lying := slices.DeleteFunc(slices.Clone(all), func(s *model.Message) bool { return s.Outcome == sojourn.Applied })
	if len(lying) == 0 || r.chance(10) {
		lying = all
	}
	e := rules.InboxEdit{Seq: int64(1 + r.n(9)), Action: oneOf(r.dice, sojourn.InboxMatch, sojourn.InboxMatch, sojourn.InboxRetry, sojourn.InboxDiscard), By: "anna"}
	if len(lying) > 0 {
		e.Seq = oneOf(r.dice, lying[max(len(lying)-10, 0):]...).Seq
	}
	if e.Action == sojourn.InboxMatch {
		to := r.m.That(func(j *model.Job) bool { return j.State.Live() })
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
