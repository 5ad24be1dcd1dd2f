package txn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Codes of sj_response.outcome.
const (
	OutcomeApplied   int64 = 1
	OutcomeEarly     int64 = 2
	OutcomeLate      int64 = 4
	OutcomeStale     int64 = 5
	OutcomeUnmatched int64 = 6
	OutcomeParked    int64 = 7
	OutcomeDiscarded int64 = 8
	OutcomeConflict  int64 = 9
)

// OutcomeCodes has the outcome of each code. Code 3, a duplicate, is counted in the row of the
// first response and not stored.
var OutcomeCodes = []sojourn.ResponseOutcome{"", sojourn.Applied, sojourn.Early, sojourn.Duplicate, sojourn.Late, sojourn.Stale, sojourn.Unmatched,
	sojourn.Parked, sojourn.Discarded, sojourn.Conflicting}

// ResponseColumns lists the columns of sj_response that ScanResponse reads.
const ResponseColumns = `seq, source, message_id, kind, key, job, generation, outcome, failed, progress, reason, error, content_type, received_us,
	expires_us, duplicates, body, replay, by_whom`

// ScanResponse reads ResponseColumns.
func ScanResponse(r sqldb.Row) sojourn.Response {
	return sojourn.Response{Seq: r.Int(0), Source: r.Text(1), MessageID: r.Text(2), Kind: r.Text(3), Key: r.Text(4), Job: sojourn.ID(r.Int(5)),
		Generation: int32(r.Int(6)), Outcome: OutcomeCodes[r.Int(7)], Failed: r.Int(8) != 0, Progress: r.Int(9) != 0, Reason: r.Text(10),
		Error: string(r.Bytes(11)), ContentType: r.Text(12), ReceivedAt: jobrow.Time(r.Int(13)), ExpiresAt: jobrow.Time(r.Int(14)), Duplicates: int32(r.Int(15)), Body: r.Bytes(16),
		Replay: r.Int(17), By: r.Text(18)}
}

// Changes of the stored responses of jobs, for WriteSet.Disposed. A response that is taken
// (in_hand) or attached belongs to its job until the job ends.
const (
	// QDispose releases responses that the job has taken.
	QDispose = `update sj_response set in_hand = 0 where job in (ints($1)) and job > 0 and in_hand = 1`
	// QTakenLate marks responses late that the job has taken and not used.
	QTakenLate = `update sj_response set in_hand = 0, outcome = 4 where job in (ints($1)) and job > 0 and in_hand = 1`
	// QAttachedLate marks attached responses late.
	QAttachedLate = `update sj_response set outcome = 4 where job in (ints($1)) and job > 0 and outcome = 2`
)

// PendingResponse is a response that arrives in this transaction. It is inserted once, in its last
// state.
type PendingResponse struct {
	In              *sojourn.Response
	Message         jobrow.Message
	Digest          jobrow.Digest
	Seq             int64 // its number
	Outcome         int64 // one of the codes
	Taken           bool  // by the job
	Job             sojourn.ID
	Wait            int64  // number of the wait in its capability; -1: it came without one
	Reason, ErrText string // as they are stored
	Named           bool   // its Message is stored already
	Written         bool   // it was sent
	generation      int32
	expires         int64 // microseconds; 0 = with its job
	duplicates      int64
}

// NewPendingResponse builds the stored row of a response in, with a number and an outcome. l is the
// row of the job that it is for, nil without a live one; job is the id, 0 without a job.
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

// ResponseWrites is the write set of responses. It is sent before the changes of ended jobs to
// their remaining responses (WriteSet.Disposed).
type ResponseWrites struct {
	new     []*PendingResponse
	of      map[int64]*PendingResponse // by number, with those that were sent
	marks   [4]sqldb.Ints              // stored responses that change their outcome, by Mark
	repeats map[int64]int64            // number of a stored response → how often it was repeated
}

// What has become of an attached response.
const (
	MarkTaken  = iota // the job has taken it
	MarkUsedUp        // it is an error, and has ended the attempt
	MarkLate          // the job had gone on without it
	MarkStale         // it was for an earlier wait
)

// marked has the statement and the outcome for each mark.
var marked = [4]struct {
	q       string
	outcome int64
}{
	MarkTaken:  {`update sj_response set outcome = 1, in_hand = 1 where seq in (ints($1))`, OutcomeApplied},
	MarkUsedUp: {`update sj_response set outcome = 1 where seq in (ints($1))`, OutcomeApplied},
	MarkLate:   {`update sj_response set outcome = 4 where seq in (ints($1))`, OutcomeLate},
	MarkStale:  {`update sj_response set outcome = 5 where seq in (ints($1))`, OutcomeStale},
}

// Add adds a response to the write set.
func (b *ResponseWrites) Add(s *PendingResponse) {
	if b.of == nil {
		b.of = map[int64]*PendingResponse{}
	}
	b.of[s.Seq] = s
	b.new = append(b.new, s)
}

// Mark records the results of attached responses, given by their numbers.
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

// CountDuplicate counts a repeat of a response, which is not stored itself.
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

func (b *ResponseWrites) empty() bool {
	for _, seqs := range b.marks {
		if len(seqs) > 0 {
			return false
		}
	}
	return len(b.new)+len(b.repeats) == 0
}

const (
	qAddMessages  = `insert into sj_message (seq, at_us, scope, message_id, digest) rows($1 bigint, $2 bigint, $3 text, $4 text, $5 bytea)`
	qAddResponses = `insert into sj_response (seq, job, generation, outcome, in_hand, failed, progress, received_us, expires_us, duplicates, wait, source, message_id, kind,
		key, reason, content_type, error, body) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint,
		$10 bigint, $11 bigint, $12 text, $13 text, $14 text, $15 text, $16 text, $17 text, $18 bytea, $19 bytea)`
	qRepeated = `update sj_response set duplicates = duplicates + each($2 bigint) /*from each*/ where seq = each($1 bigint)`
)

// collectInbox adds the statements of the write set of responses.
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

// addMessages stores the message ids, in one order everywhere: two transactions with the same ids
// wait for each other, and do not deadlock.
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

// addResponses stores the responses.
func (t *Tx) addResponses(rs []*PendingResponse) {
	responses := jobrow.NewColumns(len(rs), 10, 6, 2)
	for _, s := range rs {
		s.Written = true
		responses.Row(s.Seq).Ints(int64(s.Job), int64(s.generation), s.Outcome, jobrow.Bit(s.Taken), jobrow.Bit(s.In.Failed), jobrow.Bit(s.In.Progress), t.Now, s.expires,
			s.duplicates, s.Wait).Strings(s.In.Source, s.In.MessageID, s.In.Kind, s.In.Key, s.Reason, s.In.ContentType).Bytes([]byte(s.ErrText), s.In.Body)
	}
	t.AddColumns(qAddResponses, 0, "", responses)
}
