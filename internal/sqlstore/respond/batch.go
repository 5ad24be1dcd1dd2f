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

// batch is the responses of one transaction. It reads the rows for all of them together. Then it
// decides each response in turn, on the rows as the responses before it have left them, and writes
// all results together.
type batch struct {
	*txn.Tx
	calls []request

	stored     map[jobrow.Message]*txn.PendingResponse // the first response with each message id
	holders    map[txn.KindKey]txn.Holder              // the present or last holder of the key
	rows       map[sojourn.ID]*jobrow.Row              // with the changes so far; nil: not live
	attached   map[sojourn.ID][]rules.KeptResponse     // to the rows, in order of arrival
	numbers    sqldb.Ints                              // for new responses, ascending
	nextID     int64                                   // the first id that was never allocated; 0 = not read
	progressOf map[sojourn.ID]string                   // the newest progress of each job
}

// request is one call. If it is refused, that happens before anything is written.
type request struct {
	responses []sojourn.Response
	targets   []target
	refused   error
}

// newBatch resolves the targets of all responses.
func newBatch(t *txn.Tx, requests [][]sojourn.Response) *batch {
	r := &batch{Tx: t, calls: make([]request, len(requests)), stored: map[jobrow.Message]*txn.PendingResponse{}, holders: map[txn.KindKey]txn.Holder{},
		rows: map[sojourn.ID]*jobrow.Row{}, attached: map[sojourn.ID][]rules.KeptResponse{}, progressOf: map[sojourn.ID]string{}}
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

// eachAccepted calls do for each response of the calls that are not refused.
func (b *batch) eachAccepted(do func(in *sojourn.Response, to *target)) {
	for _, c := range b.calls {
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
	qKeys = `select k.kind, k.key, k.job, k.live from sj_key k /*, each*/ where k.kind = each($1 text) and k.key = each($2 text)`
	// qNamed selects the rows of the jobs named by responses and by leases.
	qNamed = ` from sj_live l join sj_job j on j.id = l.id where l.id in (ints($1) union
		select k.job from sj_key k where (k.kind, k.key) in (rows($2 text, $3 text))) order by l.id /*lock l*/`
)

// TextMessages names the statement that finds message ids, for Dialect.Over: PostgreSQL numbers the
// new ones with it.
const TextMessages = qMessages

// qLiveNamed locks the jobs named by responses and by leases, in one order. Reads after it see the
// result of the transactions before. qLiveNamedTyped also reads their content types.
var (
	qLiveNamed      = `select ` + jobrow.LiveColumns + qNamed
	qLiveNamedTyped = `select ` + jobrow.LiveColumns + `, j.content_type` + qNamed
)

// Reads returns the reads of the transaction: the rows of the jobs, locked in one order, where
// others write concurrently; the known message ids; and the holders of the keys.
func (b *batch) Reads() (reads []sqldb.Statement) {
	ids := make(sqldb.Ints, 0, len(b.Loaded.Leased))
	for id := range b.Loaded.Leased {
		ids = append(ids, int64(id))
	}
	var scopes, texts, kinds, keys sqldb.Texts
	byID := false
	b.eachAccepted(func(in *sojourn.Response, to *target) {
		scopes, texts = append(scopes, to.as.Scope), append(texts, to.as.ID)
		byID = byID || in.Job != 0
		if to.id != 0 {
			ids = append(ids, int64(to.id))
		} else if !in.Park {
			kinds, keys = append(kinds, in.Kind), append(keys, in.Key)
		}
	})
	if b.Concurrent() {
		text, note := qLiveNamed, b.scanLeased
		if b.needTypes() {
			text, note, b.Loaded.Types = qLiveNamedTyped, b.scanType, jobrow.ContentTypes{}
		}
		reads = append(reads, sqldb.Statement{Text: text, Args: []any{ids, slices.Clone(kinds), slices.Clone(keys)}, Each: b.ScanInto(b.rows, note)})
	}
	if len(texts) > 0 {
		reads = append(reads, sqldb.Statement{Text: qMessages, Rows: []sqldb.Column{scopes, texts}, Each: b.scanMessage})
	}
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: qKeys, Rows: []sqldb.Column{kinds, keys}, Each: func(row sqldb.Row) error {
			b.holders[txn.KindKey{Kind: row.Text(0), Key: row.Text(1)}] = txn.Holder{ID: sojourn.ID(row.Int(2)), Live: row.Int(3) != 0}
			return nil
		}})
	}
	if byID {
		reads = append(reads, sqldb.Statement{Text: txn.QMeta, Args: []any{"next_id"}, Each: func(row sqldb.Row) (err error) {
			b.nextID, err = strconv.ParseInt(row.Text(0), 10, 64)
			return err
		}})
	}
	return reads
}

// scanLeased also keeps a row for the requests that have a lease of the job.
func (b *batch) scanLeased(_ sqldb.Row, l *jobrow.Row) error {
	if _, ok := b.Loaded.Leased[l.ID]; ok {
		b.Loaded.Leased[l.ID] = l
	}
	return nil
}

// scanMessage notes the response that has a message id, or the number for a new one.
func (b *batch) scanMessage(row sqldb.Row) error {
	if known := row.Int(4) != 0; !known {
		b.numbers = append(b.numbers, row.Int(2))
		return nil
	}
	first := &txn.PendingResponse{Seq: row.Int(2), Job: sojourn.ID(row.Int(3)), Written: true}
	copy(first.Digest[:], row.Bytes(5))
	b.stored[jobrow.Message{Scope: row.Text(0), ID: row.Text(1)}] = first
	return nil
}

// prepare runs the reads that depend on the results of Reads: rows that are not locked yet,
// attached responses, and numbers. It is the last place where a call is refused.
func (b *batch) prepare() error {
	for i := range b.calls {
		c := &b.calls[i]
		for k := range c.responses {
			if c.refused == nil && c.responses[k].Job != 0 && int64(c.responses[k].Job) >= max(b.nextID, 1) {
				c.refused = sojourn.AtIndex(k, sojourn.NotFound("no job has ever had the id %d", c.responses[k].Job))
			}
		}
	}
	fresh, err := b.checkMessageIDs()
	if err != nil {
		return err
	}
	var ids sqldb.Ints
	b.eachAccepted(func(in *sojourn.Response, to *target) {
		if to.id == 0 && !in.Park {
			h := b.holders[txn.KindKey{Kind: in.Kind, Key: in.Key}]
			if to.id = h.ID; !h.Live && b.Concurrent() {
				return // Reads has read the row, or the job is final
			}
		}
		if _, ok := b.rows[to.id]; !ok && to.id != 0 {
			b.rows[to.id] = nil
			ids = append(ids, int64(to.id))
		}
	})
	if err := b.refuseJSON(); err != nil {
		return err
	}
	if len(ids) > 0 {
		found, err := b.Load(ids)
		if err != nil {
			return err
		}
		maps.Copy(b.rows, found)
	}
	if more := fresh - len(b.numbers); more > 0 {
		if err := b.Read(txn.QNextResponses, func(row sqldb.Row) error {
			for seq := row.Int(0); seq < row.Int(0)+row.Int(1); seq++ {
				b.numbers = append(b.numbers, seq)
			}
			return nil
		}, more); err != nil {
			return err
		}
	}
	slices.Sort(b.numbers)
	return b.readAttached()
}

// readAttached reads the attached responses. The rows contain their count; most jobs have none.
func (b *batch) readAttached() error {
	var keepers sqldb.Ints
	for id, l := range b.rows {
		if l != nil && l.Kept > 0 {
			keepers = append(keepers, int64(id))
		}
	}
	if len(keepers) == 0 {
		return nil
	}
	return b.Read(lifecycle.QAttached, lifecycle.ScanAttached(b.attached), keepers)
}

// Run decides the responses in turn.
func (b *batch) Run() ([]answer, error) {
	if err := b.prepare(); err != nil {
		return nil, err
	}
	answers := make([]answer, len(b.calls))
	for i, c := range b.calls {
		if answers[i].refused = c.refused; c.refused != nil {
			continue
		}
		answers[i].done = make([]sojourn.Responded, len(c.responses))
		for k := range c.responses {
			var err error
			if answers[i].done[k], err = b.store(&c.responses[k], c.targets[k]); err != nil {
				return nil, err
			}
		}
	}
	b.addProgress()
	return answers, nil
}

// Single stores a response in a transaction of another request: an operator's, which has changed
// it.
func Single(t *txn.Tx, in sojourn.Response) (sojourn.Responded, error) {
	r := newBatch(t, [][]sojourn.Response{{in}})
	if err := r.read(); err != nil {
		return sojourn.Responded{}, err
	}
	c := r.calls[0]
	if c.refused != nil {
		return sojourn.Responded{}, c.refused
	}
	answer, err := r.store(&c.responses[0], c.targets[0])
	r.addProgress()
	return answer, err
}

// read runs Reads and prepare.
func (b *batch) read() error {
	if err := b.ReadAll(b.Reads()); err != nil {
		return err
	}
	return b.prepare()
}
