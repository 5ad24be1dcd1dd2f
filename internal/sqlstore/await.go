package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// readWaits reads the keys of all rows whose steps begin to wait, and which of the keys have no
// early response, in one query each.
func (t *tx) readWaits(begin []*live) error {
	t.waits = waits{map[sojourn.ID][]string{}, map[kindKey]bool{}}
	var again sqldb.Ints
	for _, l := range begin {
		t.waits.keys[l.ID] = nil
		if l.awaited {
			again = append(again, int64(l.ID))
		}
	}
	if len(again) > 0 {
		err := t.query(qWaitKeys, func(r sqldb.Row) error {
			id := sojourn.ID(r.Int(0))
			t.waits.keys[id] = append(t.waits.keys[id], r.Text(1))
			return nil
		}, again)
		if err != nil {
			return err
		}
	}
	var kinds, keys sqldb.Texts
	for _, l := range begin {
		own := sqldb.Texts{l.key}
		for _, k := range append(own, t.waits.keys[l.ID]...) {
			if k != "" {
				kinds, keys = append(kinds, l.kind), append(keys, k)
				t.waits.nothingEarly[kindKey{l.kind, k}] = true
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return t.each(qAnyEarly, func(r sqldb.Row) error { delete(t.waits.nothingEarly, kindKey{r.Text(0), r.Text(1)}); return nil }, kinds, keys)
}

const (
	qWaitKeys = `select job, key from sj_key where job in (ints($1)) and own = 0 and live = 1 order by job, key`
	qAnyEarly = `select r.kind, r.key from sj_response r /*, each*/ where r.kind = each($1 text) and r.key = each($2 text) and r.outcome = 2 and r.job = 0`
	qEarlyOf  = `select seq from sj_response where kind = $1 and key = $2 and outcome = 2 and job = 0 order by seq`
	qAttach   = `update sj_response set job = $1, generation = $2, expires_us = 0 where seq in (ints($3)) and outcome = 2 and job = 0`
)

// beginWait registers the awaited keys to the job, until it is final, and attaches the early
// responses of all its keys. It also finds a response that came before the request returned.
func (t *tx) beginWait(l *live) (*live, error) {
	for _, k := range l.Wait.Keys {
		if k == l.key {
			continue
		}
		if err := t.rememberHolder(l.kind, k, int64(l.ID)); err != nil {
			return nil, err
		}
		if err := t.takeAwaited(l, k); err != nil {
			return nil, err
		}
	}
	keys, err := t.keysOf(l)
	if err != nil {
		return nil, err
	}
	var early sqldb.Ints
	for _, k := range keys {
		if t.waits.nothingEarly[kindKey{l.kind, k}] {
			continue
		}
		if err := t.query(qEarlyOf, func(r sqldb.Row) error { early = append(early, r.Int(0)); return nil }, l.kind, k); err != nil {
			return nil, err
		}
	}
	now := *l
	now.awaited = true
	if len(early) > 0 {
		n, err := t.exec(qAttach, int64(l.ID), int64(l.generation), early)
		if err != nil {
			return nil, err
		}
		now.Kept += int32(n)
	}
	return &now, t.save(l, &now)
}

// keysOf lists the keys that are registered to a live job: its own, and those of its waits.
func (t *tx) keysOf(l *live) (keys []string, err error) {
	if known, ok := t.waits.keys[l.ID]; ok && len(l.Wait.Keys) == 0 {
		keys = slices.Clone(known)
	} else if l.awaited || len(l.Wait.Keys) > 0 {
		err = t.query(qWaitKeys, func(r sqldb.Row) error { keys = append(keys, r.Text(1)); return nil }, sqldb.Ints{int64(l.ID)})
	}
	if l.key != "" && !slices.Contains(keys, l.key) {
		keys = append(keys, l.key)
	}
	return keys, err
}

// takeAwaited gives the job a key that it awaits, if it does not have it from an earlier wait.
func (t *tx) takeAwaited(l *live, key string) error {
	n, err := t.exec(qTakeOneKey, l.kind, key, int64(l.ID), 0, t.now)
	if err != nil || n == 1 {
		t.mayBeUnseen(l.kind, key)
		return err
	}
	mine, err := t.num(`select count(*) from sj_key where kind = $1 and key = $2 and job = $3 and live = 1`, l.kind, key, int64(l.ID))
	if err == nil && mine == 0 {
		err = raced("a key to await was taken meanwhile")
	}
	return err
}
