package respond

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// batch processes the responses of one transaction. It reads the rows for all of them
// together. Then it decides each response in turn, on the rows as the responses before it have left
// them, and writes all results together.
type batch struct {
	*txn.Tx
	calls []request

	firsts  map[jobrow.Message]*txn.PendingResponse // the first response with each message id
	holders map[txn.KindKey]txn.Holder              // the present or last holder of the key
	rows    map[sojourn.ID]*jobrow.Row              // with the changes so far; nil: not live
	kept    map[sojourn.ID][]rules.KeptResponse     // attached to the rows, in order of arrival
	numbers sqldb.Ints                              // for new responses, ascending
	nextID  int64                                   // the first id that was never allocated
	signs   map[sojourn.ID]string                   // progress, the newest of each job
}

// request is one call. A refused call is refused before anything is written.
type request struct {
	responses []sojourn.Response
	targets   []target
	refused   error
}

func newResponding(t *txn.Tx, requests [][]sojourn.Response) *batch {
	r := &batch{Tx: t, calls: make([]request, len(requests)), firsts: map[jobrow.Message]*txn.PendingResponse{}, holders: map[txn.KindKey]txn.Holder{},
		rows: map[sojourn.ID]*jobrow.Row{}, kept: map[sojourn.ID][]rules.KeptResponse{}, signs: map[sojourn.ID]string{}}
	for i, rs := range requests {
		c := request{responses: rs, targets: make([]target, len(rs))}
		for k := range rs {
			var err error
			if c.targets[k], err = resolveTarget(t, &rs[k]); err != nil {
				c.refused = sojourn.AtIndex(k, err)
				break
			}
		}
		r.calls[i] = c
	}
	return r
}

// accepted calls do for each response of the calls that are not refused.
func (r *batch) accepted(do func(in *sojourn.Response, to *target)) {
	for _, c := range r.calls {
		for k := range c.responses {
			if c.refused == nil {
				do(&c.responses[k], &c.targets[k])
			}
		}
	}
}

const (
	// qMessages finds the first response of each message id, with its digest. Where a dialect
	// overrides the text, the statement also numbers the new message ids.
	qMessages = `select m.scope, m.message_id, m.seq, coalesce(r.job, 0), 1, m.digest from sj_message m left join sj_response r on r.seq = m.seq /*, each*/
		where m.scope = each($1 text) and m.message_id = each($2 text)`
	qKeys  = `select k.kind, k.key, k.job, k.live from sj_key k /*, each*/ where k.kind = each($1 text) and k.key = each($2 text)`
	qNamed = ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1) union
		select k.job from sj_key k where (k.kind, k.key) in (rows($2 text, $3 text))) order by l.id /*lock l*/`
	qKeptOf = `select job, seq, key, failed, reason, error, wait from sj_response where job in (ints($1)) and job > 0 and outcome = 2 order by seq`
)

// TextMessages names the statement that finds message ids, and may number the new ones, for
// Dialect.Over.
const TextMessages = qMessages

// read runs reads and prepare.
func (r *batch) read() error {
	if err := r.ReadAll(r.Reads()); err != nil {
		return err
	}
	return r.prepare()
}

// Reads returns the reads of the transaction: the rows of the jobs, locked in one order; the known
// message ids; and the holders of the keys.
func (r *batch) Reads() (reads []sqldb.Statement) {
	ids := make(sqldb.Ints, 0, len(r.Leased))
	for id := range r.Leased {
		ids = append(ids, int64(id))
	}
	var scopes, texts, kinds, keys sqldb.Texts
	byID := false
	r.accepted(func(in *sojourn.Response, to *target) {
		scopes, texts = append(scopes, to.as.Scope), append(texts, to.as.ID)
		byID = byID || in.Job != 0
		if to.id != 0 {
			ids = append(ids, int64(to.id))
		} else if !in.Park {
			kinds, keys = append(kinds, in.Kind), append(keys, in.Key)
		}
	})
	if r.Concurrent() {
		text, note := qLiveNamed, r.noteLeased
		if r.needTypes() {
			text, note, r.Types = qLiveNamedTyped, r.noteType, txn.ContentTypes{}
		}
		reads = append(reads, sqldb.Statement{Text: text, Args: []any{ids, slices.Clone(kinds), slices.Clone(keys)}, Each: r.ScanInto(r.rows, note)})
	}
	if len(texts) > 0 {
		reads = append(reads, sqldb.Statement{Text: qMessages, Rows: []sqldb.Column{scopes, texts}, Each: r.scanMessage})
	}
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: qKeys, Rows: []sqldb.Column{kinds, keys}, Each: func(row sqldb.Row) error {
			r.holders[txn.KindKey{Kind: row.Text(0), Key: row.Text(1)}] = txn.Holder{ID: sojourn.ID(row.Int(2)), Live: row.Int(3) != 0}
			return nil
		}})
	}
	if byID {
		reads = append(reads, sqldb.Statement{Text: txn.QMeta, Args: []any{"next_id"}, Each: func(row sqldb.Row) (err error) {
			r.nextID, err = strconv.ParseInt(row.Text(0), 10, 64)
			return err
		}})
	}
	return reads
}

func (r *batch) noteLeased(_ sqldb.Row, l *jobrow.Row) error {
	if _, ok := r.Leased[l.ID]; ok {
		r.Leased[l.ID] = l
	}
	return nil
}

func (r *batch) scanMessage(row sqldb.Row) error {
	if known := row.Int(4) != 0; !known {
		r.numbers = append(r.numbers, row.Int(2))
		return nil
	}
	first := &txn.PendingResponse{Seq: row.Int(2), Job: sojourn.ID(row.Int(3)), Written: true}
	copy(first.Digest[:], row.Bytes(5))
	r.firsts[jobrow.Message{Scope: row.Text(0), ID: row.Text(1)}] = first
	return nil
}

// prepare runs the reads that depend on the result of reads: rows that are not locked yet, attached
// responses, and numbers. It is the last place where a call is refused.
func (r *batch) prepare() error {
	for i := range r.calls {
		c := &r.calls[i]
		for k := range c.responses {
			if c.refused == nil && c.responses[k].Job != 0 && int64(c.responses[k].Job) >= max(r.nextID, 1) {
				c.refused = sojourn.AtIndex(k, sojourn.NotFound("no job has ever had the id %d", c.responses[k].Job))
			}
		}
	}
	fresh, err := r.identify()
	if err != nil {
		return err
	}
	var ids sqldb.Ints
	r.accepted(func(in *sojourn.Response, to *target) {
		if to.id == 0 && !in.Park {
			h := r.holders[txn.KindKey{Kind: in.Kind, Key: in.Key}]
			if to.id = h.ID; !h.Live && r.Concurrent() {
				return // reads has read the row, or the job is final
			}
		}
		if _, ok := r.rows[to.id]; !ok && to.id != 0 {
			r.rows[to.id] = nil
			ids = append(ids, int64(to.id))
		}
	})
	if err := r.refuseJSON(); err != nil {
		return err
	}
	if len(ids) > 0 {
		found, err := r.Load(ids)
		if err != nil {
			return err
		}
		maps.Copy(r.rows, found)
	}
	if more := fresh - len(r.numbers); more > 0 {
		if err := r.Read(txn.QNextResponses, func(row sqldb.Row) error {
			for seq := row.Int(0); seq < row.Int(0)+row.Int(1); seq++ {
				r.numbers = append(r.numbers, seq)
			}
			return nil
		}, more); err != nil {
			return err
		}
	}
	slices.Sort(r.numbers)
	return r.readKept()
}

// readKept reads the attached responses. The rows contain their count; most jobs have none.
func (r *batch) readKept() error {
	var keepers sqldb.Ints
	for id, l := range r.rows {
		if l != nil && l.Kept > 0 {
			keepers = append(keepers, int64(id))
		}
	}
	if len(keepers) == 0 {
		return nil
	}
	return r.Read(qKeptOf, func(row sqldb.Row) error {
		id := sojourn.ID(row.Int(0))
		r.kept[id] = append(r.kept[id], lifecycle.ScanAttached(row, 1))
		return nil
	}, keepers)
}

// one stores one response and gives it to its job.
func (r *batch) one(in *sojourn.Response, to target) (sojourn.Responded, error) {
	if first := r.firsts[to.as]; first != nil {
		r.Responses.CountDuplicate(first)
		if to.conflict {
			return sojourn.Responded{Outcome: sojourn.Conflicting, Job: first.Job, Seq: first.Seq}, nil
		}
		return sojourn.Responded{Outcome: sojourn.Duplicate, Job: first.Job, Seq: first.Seq}, nil
	}
	seq := r.numbers[0]
	r.numbers = r.numbers[1:]
	l := r.rows[to.id]
	outcome := outcomeFor(r.Tx, in, l, to)
	s := r.NewPendingResponse(in, seq, outcome, l, to.id)
	if to.token {
		s.Wait = int64(to.wait)
	}
	s.Message, s.Digest = to.as, to.digest
	r.firsts[to.as] = s
	r.Responses.Add(s)
	switch {
	case l == nil:
		if outcome == txn.OutEarly {
			r.NoteRecheck(in.Kind, in.Key)
		}
	case in.Progress && outcome == txn.OutApplied:
		if err := r.progress(l, string(in.Body)); err != nil {
			return sojourn.Responded{}, err
		}
	case outcome == txn.OutEarly:
		if err := r.keep(l, s); err != nil {
			return sojourn.Responded{}, err
		}
	}
	return sojourn.Responded{Outcome: txn.OutcomeCodes[s.Outcome], Job: s.Job, Seq: seq}, nil
}

// keep attaches a response to its job, and matches.
func (r *batch) keep(l *jobrow.Row, s *txn.PendingResponse) error {
	now := *l
	now.Kept++
	kept := append(r.kept[l.ID], rules.KeptResponse{Seq: s.Seq, Key: s.In.Key, Failed: s.In.Failed, Reason: s.Reason, Error: s.ErrText,
		ByToken: s.Wait >= 0, Wait: int32(max(s.Wait, 0))})
	after, kept, err := lifecycle.MatchAttached(r.Tx, &now, kept)
	if err == nil && after == &now { // no wait has matched it
		err = r.Save(l, after)
	}
	if err != nil {
		return err
	}
	r.rows[l.ID], r.kept[l.ID] = after, kept
	if after.State.Final() {
		r.rows[l.ID], r.kept[l.ID] = nil, nil
	}
	return nil
}

// progress stores a progress response, and restarts the beat of the wait if one runs.
func (r *batch) progress(l *jobrow.Row, text string) error {
	now := *l
	if l.BeatUntil > 0 {
		now.BeatUntil = lifecycle.TimeAfter(r.Tx, l.Wait.Beat)
	}
	if text != "" {
		now.HasData = true
		r.signs[l.ID] = text
	}
	r.rows[l.ID] = &now
	return r.Save(l, &now)
}

// write adds the progress texts to the write set.
func (r *batch) write() {
	ids := slices.Sorted(maps.Keys(r.signs))
	jobs, nothing, texts := make(sqldb.Ints, len(ids)), make(sqldb.Blobs, len(ids)), make(sqldb.Texts, len(ids))
	for i, id := range ids {
		jobs[i], texts[i] = int64(id), sojourn.Cut(r.signs[id], sojourn.MaxProgress)
	}
	r.AddBulk(qSigns, 0, "", jobs, nothing, texts)
}

const qSigns = `insert into sj_data (job, checkpoint, progress) rows($1 bigint, $2 bytea, $3 text)
	on conflict (job) do update set progress = excluded.progress`

// outcomeFor returns the outcome of a response before Match runs. Progress is never attached: it
// would answer the next wait.
func outcomeFor(t *txn.Tx, r *sojourn.Response, l *jobrow.Row, to target) int64 {
	switch {
	case to.conflict:
		return txn.OutConflict
	case r.Park:
		return txn.OutParked
	case l == nil && to.id == 0 && r.Progress:
		return txn.OutUnmatched
	case l == nil && to.id == 0:
		return txn.OutEarly
	case l == nil:
		return txn.OutLate // the job that had the key is final, or gone
	case to.until > 0 && t.Now >= to.until, to.token && (to.generation != l.Generation || to.attempt != l.Attempt || to.wait != l.Waits):
		return txn.OutStale
	case r.Progress && l.AttemptOpen && (l.State == sojourn.Running || l.State == sojourn.Awaiting):
		return txn.OutApplied
	case r.Progress:
		return txn.OutLate // no wait of its sender is open
	}
	return txn.OutEarly // attached to the job
}

// Single processes a response inside a transaction of another step.
func Single(t *txn.Tx, in sojourn.Response) (sojourn.Responded, error) {
	r := newResponding(t, [][]sojourn.Response{{in}})
	if err := r.read(); err != nil {
		return sojourn.Responded{}, err
	}
	c := r.calls[0]
	if c.refused != nil {
		return sojourn.Responded{}, c.refused
	}
	answer, err := r.one(&c.responses[0], c.targets[0])
	r.write()
	return answer, err
}

// qLiveNamed locks the jobs named by responses and by leases, in one order. Reads after it see
// the result of the transactions before.
var qLiveNamed = `select ` + jobrow.LiveColumns + qNamed

var qLiveNamedTyped = `select ` + jobrow.LiveColumns + `, j.content_type` + qNamed
