package lifecycle

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qEarlyHolders = `select k.kind, k.key, k.job from sj_key k where k.live = 1 and (k.kind, k.key) in (rows($1 text, $2 text))
		and exists (select 1 from sj_response r where r.kind = k.kind and r.key = k.key and r.outcome = 2 and r.job = 0)`
	// Only the newest ones: sweeps before have seen the older ones.
	qEarlyMissed = `select distinct r.kind, r.key from sj_response r join sj_key k on k.kind = r.kind and k.key = r.key and k.live = 1
		join sj_live l on l.id = k.job and l.state = 5
		where r.seq > (select coalesce(max(seq), 0) from sj_response) - 10000 and r.outcome = 2 and r.job = 0 limit $1`
)

// MissedKeys finds keys with an early response and a waiting job. There are some if a process has
// died between a commit and the second check after it (operate.Operator.Recheck); a sweep attaches
// the responses instead. Without concurrent transactions there are none.
func MissedKeys(t *txn.Tx, limit int) (keys []txn.KindKey, err error) {
	if !t.Concurrent() {
		return nil, nil
	}
	err = t.Read(qEarlyMissed, func(r sqldb.Row) error { keys = append(keys, txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}); return nil }, limit)
	return keys, err
}

// AttachEarly gives live jobs the early responses to these keys, as if they came now. It locks the
// rows of all jobs before it changes one.
func AttachEarly(t *txn.Tx, keys []txn.KindKey) error {
	kinds, texts := make(sqldb.Texts, len(keys)), make(sqldb.Texts, len(keys))
	for i, k := range keys {
		kinds[i], texts[i] = k.Kind, k.Key
	}
	type holder struct {
		txn.KindKey
		job int64
	}
	var found []holder
	var ids sqldb.Ints
	if err := t.Read(qEarlyHolders, func(r sqldb.Row) error {
		found, ids = append(found, holder{txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}, r.Int(2)}), append(ids, r.Int(2))
		return nil
	}, kinds, texts); err != nil || len(found) == 0 {
		return err
	}
	if err := t.Lock(txn.QLockLive, ids); err != nil {
		return err
	}
	for _, h := range found {
		l, err := t.LoadOne(sojourn.ID(h.job))
		if err != nil {
			return err
		}
		if l == nil {
			continue // it has ended; the inbox's time to live ends the response
		}
		if err := attachTo(t, l, h.KindKey); err != nil {
			return err
		}
	}
	return nil
}

// attachTo attaches the early responses to one key of a job, and matches them.
func attachTo(t *txn.Tx, l *jobrow.Row, k txn.KindKey) error {
	var early sqldb.Ints
	err := t.Read(qEarlyOf, func(r sqldb.Row) error { early = append(early, r.Int(0)); return nil }, k.Kind, k.Key)
	if err != nil || len(early) == 0 {
		return err
	}
	n, err := t.Write(qAttach, int64(l.ID), int64(l.Generation), early)
	if err != nil {
		return err
	}
	now := *l
	now.Kept += int32(n)
	if err := t.Save(l, &now); err != nil {
		return err
	}
	_, err = Match(t, &now)
	return err
}
