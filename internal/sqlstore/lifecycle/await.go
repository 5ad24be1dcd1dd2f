package lifecycle

import (
	"slices"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// QWaitKeys lists the keys that live jobs have from their waits.
	QWaitKeys = `select job, key from sj_key where job in (ints($1)) and own = 0 and live = 1 order by job, key`
	// QAnyEarly lists those of some keys that have an early response.
	QAnyEarly = `select r.kind, r.key from sj_response r /*, each*/ where r.kind = each($1 text) and r.key = each($2 text) and r.outcome = 2 and r.job = 0`
	qEarlyOf  = `select seq from sj_response where kind = $1 and key = $2 and outcome = 2 and job = 0 order by seq`
	// qAttach leaves out responses that another transaction has attached meanwhile.
	qAttach = `update sj_response set job = $1, generation = $2, expires_us = 0 where seq in (ints($3)) and outcome = 2 and job = 0`
	qHasKey = `select count(*) from sj_key where kind = $1 and key = $2 and job = $3 and live = 1`
)

// BeginWait gives the job the keys that it awaits, until it is final, and attaches the early
// responses to all its keys: the other side may have answered before the worker's request returned.
// It returns the row. The caller runs Match after it.
func BeginWait(t *txn.Tx, l *jobrow.Row) (*jobrow.Row, error) {
	for _, k := range l.Wait.Keys {
		if k == l.Key {
			continue
		}
		if err := RememberHolder(t, l.Kind, k, int64(l.ID)); err != nil {
			return nil, err
		}
		if err := takeAwaited(t, l, k); err != nil {
			return nil, err
		}
	}
	keys, err := KeysOf(t, l)
	if err != nil {
		return nil, err
	}
	var early sqldb.Ints
	for _, k := range keys {
		if t.Loaded.Waits.NothingEarly[txn.KindKey{Kind: l.Kind, Key: k}] {
			continue
		}
		if err := t.Read(qEarlyOf, func(r sqldb.Row) error { early = append(early, r.Int(0)); return nil }, l.Kind, k); err != nil {
			return nil, err
		}
	}
	now := *l
	now.Awaited = true
	if len(early) > 0 {
		n, err := t.Write(qAttach, int64(l.ID), int64(l.Generation), early)
		if err != nil {
			return nil, err
		}
		now.Kept += int32(n)
		delete(t.Loaded.Waits.Attached, l.ID)
	}
	return &now, t.Save(l, &now)
}

// takeAwaited gives the job a key that it awaits, if it does not have it from an earlier wait.
func takeAwaited(t *txn.Tx, l *jobrow.Row, key string) error {
	n, err := t.Write(QTakeOneKey, l.Kind, key, int64(l.ID), 0, t.Now)
	if err != nil || n == 1 {
		t.NoteRecheck(l.Kind, key)
		return err
	}
	own, err := t.ReadInt(qHasKey, l.Kind, key, int64(l.ID))
	if err == nil && own == 0 {
		err = txn.Raced("a key to await was taken meanwhile")
	}
	return err
}

// KeysOf lists the keys under which a response reaches a live job: those of its waits, and its own.
func KeysOf(t *txn.Tx, l *jobrow.Row) (keys []string, err error) {
	if known, ok := t.Loaded.Waits.Keys[l.ID]; ok && len(l.Wait.Keys) == 0 {
		keys = slices.Clone(known)
	} else if l.Awaited || len(l.Wait.Keys) > 0 {
		err = t.Read(QWaitKeys, func(r sqldb.Row) error { keys = append(keys, r.Text(1)); return nil }, sqldb.Ints{int64(l.ID)})
	}
	if l.Key != "" && !slices.Contains(keys, l.Key) {
		keys = append(keys, l.Key)
	}
	return keys, err
}
