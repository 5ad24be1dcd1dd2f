package model

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// InboxEdit predicts the answer of EditInbox, or the code of its refusal.
func (m Operator) InboxEdit(e rules.InboxEdit) (sojourn.Responded, string) {
	old := m.Inbox.stored[e.Seq]
	if old == nil {
		return sojourn.Responded{}, sojourn.CodeNotFound
	}
	if e.Action == sojourn.InboxDiscard {
		return m.discard(old)
	}
	kept := old.Outcome == sojourn.Early && old.Job > 0
	if old.Outcome == sojourn.Applied || kept || old.Outcome == sojourn.Early && e.Action == sojourn.InboxRetry {
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	r := old.Response
	r.PerKey, r.KeepConflict = false, false
	r.Kind, r.Key, r.Job, r.Token, r.Park, r.TTL, r.MessageID = "", "", 0, "", false, 0, fmt.Sprint("replay:", old.Seq)
	switch {
	case e.Action == sojourn.InboxMatch && e.Job > 0:
		r.Job, r.MessageID = e.Job, fmt.Sprint(r.MessageID, ":", e.Job)
	case e.Action == sojourn.InboxMatch:
		r.Kind, r.Key, r.MessageID = e.Kind, e.Key, fmt.Sprintf("%s:%x", r.MessageID, sha256.Sum256([]byte(e.Kind+"\x00"+e.Key)))
	case old.Response.Key != "":
		r.Kind, r.Key = old.Response.Kind, old.Response.Key
	case old.Job > 0:
		r.Job = old.Job
	default:
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	if old.Outcome == sojourn.Parked || old.Outcome == sojourn.Conflicting && !old.Response.Failed {
		r.Reason, r.Error = "", ""
	}
	answer := m.Respond(r, nil)
	if old.Replay = answer.Seq; old.Outcome == sojourn.Early {
		old.Outcome, old.expires = sojourn.Unmatched, m.Now+sojourn.DefaultInboxKeep.Microseconds()
	}
	return answer, ""
}

// discard puts a response away, from a job that keeps it too.
func (m Operator) discard(old *Message) (sojourn.Responded, string) {
	if old.Outcome == sojourn.Applied {
		return sojourn.Responded{}, sojourn.CodeConflict
	}
	answer := sojourn.Responded{Outcome: sojourn.Discarded, Job: old.Job, Seq: old.Seq}
	if old.Outcome == sojourn.Discarded {
		return answer, ""
	}
	keeper := m.Jobs[old.Job]
	if old.Outcome != sojourn.Early {
		keeper = nil
	}
	if old.Outcome = sojourn.Discarded; old.Job == 0 {
		old.expires = m.Now + sojourn.DefaultInboxKeep.Microseconds()
	}
	if keeper != nil {
		keeper.Kept--
		keeper.updated = m.Now
		m.Touched[keeper.ID] = true
		m.match(keeper)
	}
	return answer, ""
}

// Capability is the target that a token names.
type Capability struct {
	Job                       sojourn.ID
	Generation, Attempt, Wait int32
}

// Respond predicts the answer of Respond. t is the target that the response's capability names.
func (m *Model) Respond(r sojourn.Response, t *Capability) sojourn.Responded {
	id, again, conflict := identity(r, t), sojourn.Duplicate, false
	if first, ok := m.Inbox.used[id]; ok && first.content != content(r) {
		id, again, conflict = id+" conflict "+content(r), sojourn.Conflicting, true
	}
	if first, ok := m.Inbox.used[id]; ok {
		answer := sojourn.Responded{Outcome: again, Seq: first.seq}
		if stored := m.Inbox.stored[first.seq]; stored != nil {
			answer.Job = stored.Job
			stored.Duplicates++
		}
		return answer
	}
	s := &Message{Seq: m.Inbox.next, Response: r, by: t, Outcome: sojourn.Early, received: m.Now}
	m.Inbox.next++
	m.Inbox.used[id], m.Inbox.stored[s.Seq] = known{s.Seq, content(r)}, s
	to := r.Job
	if t != nil {
		to = t.Job
	} else if h := m.keys[Name{r.Kind, r.Key}]; r.Key != "" && h != nil {
		to = h.job
	}
	s.Job = to
	j := m.Jobs[to]
	if j != nil {
		m.Touched[j.ID] = true
	}
	running := j != nil && (j.State == sojourn.Running || j.State == sojourn.Awaiting) && j.AttemptOpen
	switch {
	case conflict:
		s.Outcome = sojourn.Conflicting
		if j == nil || j.State.Final() {
			s.expires = m.Now + sojourn.DefaultInboxKeep.Microseconds()
		}
	case r.Park:
		s.Outcome, s.expires = sojourn.Parked, m.Now+sojourn.DefaultInboxKeep.Microseconds()
	case to == 0 && r.Progress:
		s.Outcome, s.expires = sojourn.Unmatched, m.Now+sojourn.DefaultInboxKeep.Microseconds()
	case to == 0:
		s.expires = m.Now + m.Inbox.ttl
	case j == nil || j.State.Final():
		s.Outcome, s.expires = sojourn.Late, m.Now+sojourn.DefaultInboxKeep.Microseconds()
	case t != nil && (t.Generation != j.Generation || t.Attempt != j.Attempt || t.Wait != j.Waits):
		s.Outcome = sojourn.Stale
	case r.Progress && running:
		s.Outcome = sojourn.Applied
		m.progress(j, string(r.Body))
	case r.Progress:
		s.Outcome = sojourn.Late
	default:
		j.Kept++
		j.updated = m.Now
		m.match(j)
	}
	return sojourn.Responded{Outcome: s.Outcome, Job: to, Seq: s.Seq}
}

// identity is the message id with its scope: the capability, the key of a source, or the source.
func identity(r sojourn.Response, t *Capability) string {
	switch {
	case t != nil:
		return fmt.Sprint(*t, " ", r.MessageID)
	case r.PerKey && !r.Park:
		return fmt.Sprintf("%s %s/%s %d %s", r.Source, r.Kind, r.Key, r.Job, r.MessageID)
	}
	return r.Source + " " + r.MessageID
}

// content is the part of a message that must be the same when it is sent again.
func content(r sojourn.Response) string {
	if r.Park {
		r.Reason, r.Error = "", ""
	}
	return fmt.Sprintf("%s/%s %d %v %v %v %q %q %q", r.Kind, r.Key, r.Job, r.Failed, r.Progress, r.Park, r.Reason, r.Error, r.Body)
}

// progress restarts the beat of a wait.
func (m *Model) progress(j *Job, text string) {
	if j.beatUntil > 0 {
		j.beatUntil = m.after(j.Wait.Beat)
	}
	if text != "" {
		j.progress = text
	}
	j.updated = m.Now
}

// inbox are the responses, as they are stored.
type inbox struct {
	stored map[int64]*Message
	used   map[string]known // message id, in its scope → its first use
	next   int64            // the next number
	ttl    int64            // of an early response without a job
}

// kept are the responses attached to a job that no handler has yet, in the order of arrival.
func (b *inbox) kept(id sojourn.ID) []*Message {
	return b.Responses(func(r *Message) bool { return r.Job == id && r.Outcome == sojourn.Early })
}

func (b *inbox) inHand(id sojourn.ID) []*Message {
	return b.Responses(func(r *Message) bool { return r.Job == id && r.inHand })
}

// Responses are those that satisfy that, in the order of arrival.
func (b *inbox) Responses(that func(r *Message) bool) []*Message {
	var out []*Message
	for _, r := range b.stored {
		if that(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// keepAnswer stores the response that a poll step has returned.
func (m *Model) keepAnswer(j *Job, e rules.Event) {
	s := &Message{Seq: m.Inbox.next, Job: j.ID, Outcome: sojourn.Applied, inHand: true, received: m.Now,
		Response: sojourn.Response{Source: sojourn.SourcePoll, MessageID: fmt.Sprintf("%d.%d", j.ID, j.Epoch), Body: e.Outcome.Result}}
	if e.Answered {
		s.Outcome, s.inHand = sojourn.Late, false
	}
	m.Inbox.next++
	m.Inbox.used[identity(s.Response, nil)], m.Inbox.stored[s.Seq] = known{seq: s.Seq}, s
}

func (b *inbox) keptOf(id sojourn.ID) (kept []rules.KeptResponse) {
	for _, r := range b.kept(id) {
		k := rules.KeptResponse{Seq: r.Seq, Key: r.Response.Key, Failed: r.Response.Failed, Reason: cmp.Or(r.Response.Reason, "response"), Error: r.Response.Error}
		if r.by != nil {
			k.ByToken, k.Wait = true, r.by.Wait
		}
		kept = append(kept, k)
	}
	return kept
}

// sweepInbox expires early responses that no live job with their key has taken in time, and deletes
// responses past their retention.
func (m Sweeper) sweepInbox(limit int, s *driver.Swept) {
	expired := m.Inbox.Responses(func(r *Message) bool { return r.expires > 0 && r.expires <= m.Now })
	slices.SortStableFunc(expired, func(a, b *Message) int { return cmp.Compare(a.expires, b.expires) })
	for _, r := range expired[:min(len(expired), limit)] {
		h := m.keys[Name{r.Response.Kind, r.Response.Key}]
		switch {
		case r.Outcome != sojourn.Early:
			delete(m.Inbox.stored, r.Seq)
		case h != nil && h.live:
			r.expires = m.Now + m.Inbox.ttl
		default:
			r.Outcome, r.expires = sojourn.Unmatched, m.Now+sojourn.DefaultInboxKeep.Microseconds()
			s.Unmatched++
		}
	}
}
