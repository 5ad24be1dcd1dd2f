package txn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// PendingResponse is a response of this transaction. It is written once, in its last state.
type PendingResponse struct {
	In              *sojourn.Response
	Message         jobrow.Message // its message id
	Digest          jobrow.Digest
	Seq             int64
	Outcome         int64
	Taken           bool
	Job             sojourn.ID
	generation      int32
	Wait            int64 // number of the wait in its capability; -1: it came without one
	expires         int64
	duplicates      int64
	Reason, ErrText string // as they are stored
	Named           bool   // its message id is stored already
	Written         bool
}

// NewPendingResponse builds the stored row of a response.
func (t *Tx) NewPendingResponse(in *sojourn.Response, seq, outcome int64, l *jobrow.Row, job sojourn.ID) *PendingResponse {
	s := &PendingResponse{In: in, Seq: seq, Outcome: outcome, Job: job, Wait: -1, ErrText: sojourn.Cut(in.Error, sojourn.MaxError), Reason: sojourn.Cut(in.Reason, sojourn.MaxReason)}
	if in.Failed && s.Reason == "" {
		s.Reason = "response"
	}
	switch {
	case l != nil:
		s.generation = l.Generation
	case outcome == OutcomeEarly:
		s.expires = t.Now + cmp.Or(in.TTL, t.Core.Cfg.InboxTTL).Microseconds()
	default: // pruned with its job, or, if that is gone or there is none, by its age
		s.expires = t.Now + sojourn.DefaultInboxKeep.Microseconds()
	}
	return s
}

// ResponseWrites is the write set of responses. It is written before the changes of ended jobs to
// their remaining responses.
type ResponseWrites struct {
	new     []*PendingResponse
	of      map[int64]*PendingResponse // by number, with those that are written
	marks   [4]sqldb.Ints              // stored responses that change their outcome, see marked
	repeats map[int64]int64            // number of a stored response → how often it was repeated
}

// The results of an attached response.
const (
	MarkTaken  = iota // taken by the job
	MarkUsedUp        // an error that has ended the attempt
	MarkLate
	MarkStale
)

var marked = [4]struct {
	q       string
	outcome int64
}{
	MarkTaken:  {`update sj_response set outcome = 1, in_hand = 1 where seq in (ints($1))`, OutcomeApplied},
	MarkUsedUp: {`update sj_response set outcome = 1 where seq in (ints($1))`, OutcomeApplied},
	MarkLate:   {`update sj_response set outcome = 4 where seq in (ints($1))`, OutcomeLate},
	MarkStale:  {`update sj_response set outcome = 5 where seq in (ints($1))`, OutcomeStale},
}

func (b *ResponseWrites) empty() bool {
	for _, seqs := range b.marks {
		if len(seqs) > 0 {
			return false
		}
	}
	return len(b.new)+len(b.repeats) == 0
}

// Add adds a response to the write set.
func (b *ResponseWrites) Add(s *PendingResponse) {
	if b.of == nil {
		b.of = map[int64]*PendingResponse{}
	}
	b.of[s.Seq] = s
	b.new = append(b.new, s)
}

// Mark records the results of attached responses.
func (b *ResponseWrites) Mark(how int, seqs []int64) {
	for _, seq := range seqs {
		s := b.of[seq]
		if s != nil {
			s.Outcome, s.Taken = marked[how].outcome, how == MarkTaken
		}
		if s == nil || s.Written {
			b.marks[how] = append(b.marks[how], seq)
		}
	}
}

// CountDuplicate counts a repeat of a response.
func (b *ResponseWrites) CountDuplicate(first *PendingResponse) {
	if !first.Written {
		first.duplicates++
		return
	}
	if b.repeats == nil {
		b.repeats = map[int64]int64{}
	}
	b.repeats[first.Seq]++
}

const (
	qAddMessages  = `insert into sj_message (seq, at_us, scope, message_id, digest) rows($1 bigint, $2 bigint, $3 text, $4 text, $5 bytea)`
	qAddResponses = `insert into sj_response (seq, job, generation, outcome, in_hand, failed, progress, received_us, expires_us, duplicates, wait, source, message_id, kind,
		key, reason, content_type, error, body) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint,
		$10 bigint, $11 bigint, $12 text, $13 text, $14 text, $15 text, $16 text, $17 text, $18 bytea, $19 bytea)`
	qRepeated = `update sj_response set duplicates = duplicates + each($2 bigint) /*from each*/ where seq = each($1 bigint)`
)

// collectInbox builds statements from the write set of responses.
func (t *Tx) collectInbox() {
	b := &t.Responses
	if b.empty() {
		return
	}
	t.addMessages(b.new)
	t.addResponses(b.new)
	for i, seqs := range b.marks {
		if len(seqs) > 0 {
			slices.Sort(seqs)
			t.Add(marked[i].q, 0, "", seqs)
		}
	}
	s := jobrow.NewColumns(len(b.repeats), 1, 0, 0)
	for _, seq := range slices.Sorted(maps.Keys(b.repeats)) {
		s.Row(seq).Ints(b.repeats[seq])
	}
	t.AddColumns(qRepeated, 0, "", s)
	*b = ResponseWrites{of: b.of}
}

// addMessages stores the message ids, in one order everywhere: two transactions with the same ones
// wait for each other.
func (t *Tx) addMessages(rs []*PendingResponse) {
	rs = slices.DeleteFunc(slices.Clone(rs), func(s *PendingResponse) bool { return s.Named })
	slices.SortFunc(rs, func(a, b *PendingResponse) int {
		return cmp.Or(cmp.Compare(a.Message.Scope, b.Message.Scope), cmp.Compare(a.Message.ID, b.Message.ID))
	})
	messages := jobrow.NewColumns(len(rs), 1, 2, 1)
	for _, s := range rs {
		messages.Row(s.Seq).Ints(t.Now).Strings(s.Message.Scope, s.Message.ID).Bytes(s.Digest[:])
	}
	t.AddColumns(qAddMessages, 0, "", messages)
}

func (t *Tx) addResponses(rs []*PendingResponse) {
	responses := jobrow.NewColumns(len(rs), 10, 6, 2)
	for _, s := range rs {
		s.Written = true
		responses.Row(s.Seq).Ints(int64(s.Job), int64(s.generation), s.Outcome, jobrow.Bit(s.Taken), jobrow.Bit(s.In.Failed), jobrow.Bit(s.In.Progress), t.Now, s.expires,
			s.duplicates, s.Wait).Strings(s.In.Source, s.In.MessageID, s.In.Kind, s.In.Key, s.Reason, s.In.ContentType).Bytes([]byte(s.ErrText), s.In.Body)
	}
	t.AddColumns(qAddResponses, 0, "", responses)
}
