package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// received is a response of this transaction. It is written once, in its last state.
type received struct {
	in              *sojourn.Response
	as              message // its message id
	digest          digest
	seq             int64
	outcome         int64
	inHand          bool
	job             sojourn.ID
	generation      int32
	wait            int64 // number of the wait in its capability; -1: it came without one
	expires         int64
	duplicates      int64
	reason, errText string // as they are stored
	named           bool   // its message id is stored already
	written         bool
}

// received builds the stored row of a response.
func (t *tx) received(in *sojourn.Response, seq, outcome int64, l *live, job sojourn.ID) *received {
	s := &received{in: in, seq: seq, outcome: outcome, job: job, wait: -1, errText: sojourn.Cut(in.Error, sojourn.MaxError), reason: sojourn.Cut(in.Reason, sojourn.MaxReason)}
	if in.Failed && s.reason == "" {
		s.reason = "response"
	}
	switch {
	case l != nil:
		s.generation = l.generation
	case outcome == outEarly:
		s.expires = t.now + cmp.Or(in.TTL, t.s.cfg.InboxTTL).Microseconds()
	default: // pruned with its job, or, if that is gone or there is none, by its age
		s.expires = t.now + sojourn.DefaultInboxKeep.Microseconds()
	}
	return s
}

// inbox is the write set of responses. It is written before the changes of ended jobs to their
// remaining responses.
type inbox struct {
	new     []*received
	of      map[int64]*received // by number, with those that are written
	marks   [4]sqldb.Ints       // stored responses that change their outcome, see marked
	repeats map[int64]int64     // number of a stored response → how often it was repeated
}

// The results of an attached response.
const (
	markTaken  = iota // taken by the job
	markUsedUp        // an error that has ended the attempt
	markLate
	markStale
)

var marked = [4]struct {
	q       string
	outcome int64
}{
	markTaken:  {`update sj_response set outcome = 1, in_hand = 1 where seq in (ints($1))`, outApplied},
	markUsedUp: {`update sj_response set outcome = 1 where seq in (ints($1))`, outApplied},
	markLate:   {`update sj_response set outcome = 4 where seq in (ints($1))`, outLate},
	markStale:  {`update sj_response set outcome = 5 where seq in (ints($1))`, outStale},
}

func (b *inbox) empty() bool {
	for _, seqs := range b.marks {
		if len(seqs) > 0 {
			return false
		}
	}
	return len(b.new)+len(b.repeats) == 0
}

// add adds a response to the write set.
func (b *inbox) add(s *received) {
	if b.of == nil {
		b.of = map[int64]*received{}
	}
	b.of[s.seq] = s
	b.new = append(b.new, s)
}

// mark records the results of attached responses.
func (b *inbox) mark(how int, seqs []int64) {
	for _, seq := range seqs {
		s := b.of[seq]
		if s != nil {
			s.outcome, s.inHand = marked[how].outcome, how == markTaken
		}
		if s == nil || s.written {
			b.marks[how] = append(b.marks[how], seq)
		}
	}
}

// again counts a repeat of a response.
func (b *inbox) again(first *received) {
	if !first.written {
		first.duplicates++
		return
	}
	if b.repeats == nil {
		b.repeats = map[int64]int64{}
	}
	b.repeats[first.seq]++
}

const (
	qAddMessages  = `insert into sj_message (seq, at_us, scope, message_id, digest) rows($1 bigint, $2 bigint, $3 text, $4 text, $5 bytea)`
	qAddResponses = `insert into sj_response (seq, job, generation, outcome, in_hand, failed, progress, received_us, expires_us, duplicates, wait, source, message_id, kind,
		key, reason, content_type, error, body) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint,
		$10 bigint, $11 bigint, $12 text, $13 text, $14 text, $15 text, $16 text, $17 text, $18 bytea, $19 bytea)`
	qRepeated = `update sj_response set duplicates = duplicates + each($2 bigint) /*from each*/ where seq = each($1 bigint)`
)

// collectInbox builds statements from the write set of responses.
func (t *tx) collectInbox() {
	b := &t.inbox
	if b.empty() {
		return
	}
	t.addMessages(b.new)
	t.addResponses(b.new)
	for i, seqs := range b.marks {
		if len(seqs) > 0 {
			slices.Sort(seqs)
			t.later(marked[i].q, 0, "", seqs)
		}
	}
	s := newSheet(len(b.repeats), 1, 0, 0)
	for _, seq := range slices.Sorted(maps.Keys(b.repeats)) {
		s.row(seq).ints(b.repeats[seq])
	}
	t.laterSheet(qRepeated, 0, "", s)
	*b = inbox{of: b.of}
}

// addMessages stores the message ids, in one order everywhere: two transactions with the same ones
// wait for each other.
func (t *tx) addMessages(rs []*received) {
	rs = slices.DeleteFunc(slices.Clone(rs), func(s *received) bool { return s.named })
	slices.SortFunc(rs, func(a, b *received) int {
		return cmp.Or(cmp.Compare(a.as.scope, b.as.scope), cmp.Compare(a.as.id, b.as.id))
	})
	messages := newSheet(len(rs), 1, 2, 1)
	for _, s := range rs {
		messages.row(s.seq).ints(t.now).strings(s.as.scope, s.as.id).bytes(s.digest[:])
	}
	t.laterSheet(qAddMessages, 0, "", messages)
}

func (t *tx) addResponses(rs []*received) {
	responses := newSheet(len(rs), 10, 6, 2)
	for _, s := range rs {
		s.written = true
		responses.row(s.seq).ints(int64(s.job), int64(s.generation), s.outcome, bit(s.inHand), bit(s.in.Failed), bit(s.in.Progress), t.now, s.expires,
			s.duplicates, s.wait).strings(s.in.Source, s.in.MessageID, s.in.Kind, s.in.Key, s.reason, s.in.ContentType).bytes([]byte(s.errText), s.in.Body)
	}
	t.laterSheet(qAddResponses, 0, "", responses)
}
