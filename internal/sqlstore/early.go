package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	qEarlyHolders = `select k.kind, k.key, k.job from sj_key k where k.live = 1 and (k.kind, k.key) in (rows($1 text, $2 text))
		and exists (select 1 from sj_response r where r.kind = k.kind and r.key = k.key and r.outcome = 2 and r.job = 0)`
	// Only the newest ones: sweeps before have seen the older ones.
	qEarlyMissed = `select distinct r.kind, r.key from sj_response r join sj_key k on k.kind = r.kind and k.key = r.key and k.live = 1
		join sj_live l on l.id = k.job and l.state = 5
		where r.seq > (select coalesce(max(seq), 0) from sj_response) - 10000 and r.outcome = 2 and r.job = 0 limit $1`
)

// missed finds keys with an early response and a waiting job: the ones that lookAgain attaches.
func (t *tx) missed(limit int) (keys []kindKey, err error) {
	if !t.concurrent() {
		return nil, nil
	}
	err = t.query(qEarlyMissed, func(r sqldb.Row) error { keys = append(keys, kindKey{r.Text(0), r.Text(1)}); return nil }, limit)
	return keys, err
}

// attachEarly gives live jobs the early responses of these keys, as if they came now.
func (t *tx) attachEarly(keys []kindKey) error {
	kinds, texts := make(sqldb.Texts, len(keys)), make(sqldb.Texts, len(keys))
	for i, k := range keys {
		kinds[i], texts[i] = k.kind, k.key
	}
	type holder struct {
		kindKey
		job int64
	}
	var found []holder
	var ids sqldb.Ints
	if err := t.query(qEarlyHolders, func(r sqldb.Row) error {
		found, ids = append(found, holder{kindKey{r.Text(0), r.Text(1)}, r.Int(2)}), append(ids, r.Int(2))
		return nil
	}, kinds, texts); err != nil || len(found) == 0 {
		return err
	}
	if err := t.lock(qLockLive, ids); err != nil {
		return err
	}
	for _, h := range found {
		l, err := t.loadOne(sojourn.ID(h.job))
		if err != nil {
			return err
		}
		if l == nil {
			continue // it has ended; the inbox's time to live ends the response
		}
		if err := t.attachTo(l, h.kindKey); err != nil {
			return err
		}
	}
	return nil
}

// attachTo attaches the early responses of a key of a job, and matches.
func (t *tx) attachTo(l *live, k kindKey) error {
	var early sqldb.Ints
	err := t.query(qEarlyOf, func(r sqldb.Row) error { early = append(early, r.Int(0)); return nil }, k.kind, k.key)
	if err != nil || len(early) == 0 {
		return err
	}
	n, err := t.exec(qAttach, int64(l.ID), int64(l.generation), early)
	if err != nil {
		return err
	}
	now := *l
	now.Kept += int32(n)
	if err := t.save(l, &now); err != nil {
		return err
	}
	_, err = t.match(&now)
	return err
}
