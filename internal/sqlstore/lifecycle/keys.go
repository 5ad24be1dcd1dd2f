package lifecycle

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// QKey reads the holder of a key. A final holder (live = 0) keeps the key until held_until_us.
	QKey = `select job, live, held_until_us from sj_key where kind = $1 and key = $2`
	// QLockKey is QKey with a lock, for a transaction that changes the holder.
	QLockKey = `select k.job, k.live, k.held_until_us from sj_key k where k.kind = $1 and k.key = $2 /*lock k*/`
	// QNewKey is for a transaction that assumes that the keys were never used: it fails if one was.
	QNewKey = `insert into sj_key (job, own, live, held_until_us, kind, key) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 text, $6 text)`
	// QTakeKey gives keys to new jobs, except for those that a live job has. Its caller has checked
	// until when final jobs keep theirs.
	QTakeKey = QNewKey + ` on conflict (kind, key) do update set job = excluded.job, own = excluded.own, live = excluded.live, held_until_us = excluded.held_until_us
		where sj_key.live = 0 /*hit job*/`
	// QTakeOneKey gives a key to a live job if it is free at $5.
	QTakeOneKey = `insert into sj_key (kind, key, job, own, live, held_until_us) values ($1, $2, $3, $4, 1, 0)
	on conflict (kind, key) do update set job = excluded.job, own = excluded.own, live = 1, held_until_us = 0
	where sj_key.live = 0 and sj_key.held_until_us <= $5`
	// QAwaitedKeys lists the keys that a job, live or final, has from its waits.
	QAwaitedKeys = `select kind, key from sj_key where job = $1 and own = 0 order by kind, key`
	// QForgetJob removes a job from the past holders of all its keys.
	QForgetJob = `delete from sj_key_past where job = $1`

	// qRemember records a final holder before another job takes the key.
	qRemember = `insert into sj_key_past (kind, key, job) select k.kind, k.key, k.job from sj_key k where k.kind = $1 and k.key = $2 and k.live = 0
		and k.job <> $3 and exists (select 1 from sj_final f where f.id = k.job) on conflict (kind, key, job) do nothing`
	qPastHolder   = `select coalesce(max(job), 0) from sj_key_past where kind = $1 and key = $2`
	qForgetHolder = `delete from sj_key_past where kind = $1 and key = $2 and job = $3`
	// qPassKey makes an earlier holder the last one again.
	qPassKey = `update sj_key set job = $1, own = 0, held_until_us = 0 where kind = $2 and key = $3 and job = $4 and live = 0`
	qDropKey = `delete from sj_key where kind = $1 and key = $2 and job = $3 and live = 0`
)

// KeysTaken reports whether one of the keys that a job is to await belongs to another job, live or
// final.
func KeysTaken(t *txn.Tx, l *jobrow.Row, keys []string) (bool, error) {
	for _, k := range keys {
		taken := false
		err := t.Read(QKey, func(r sqldb.Row) error {
			taken = sojourn.ID(r.Int(0)) != l.ID && (r.Int(1) != 0 || r.Int(2) > t.Now)
			return nil
		}, l.Kind, k)
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
}

// SetKey gives a running job its key. It refuses the key, before any write, if another live job has
// it or a final one keeps it, and a second key for a job. The caller saves the row.
func SetKey(t *txn.Tx, l *jobrow.Row, key string) error {
	if err := sojourn.ValidKey("key", key); err != nil {
		return err
	}
	if l.Key != "" {
		return sojourn.Conflict("job %d has the key %.64q already; a key never changes", l.ID, l.Key)
	}
	taken, mine := false, false
	err := t.Read(QKey, func(r sqldb.Row) error {
		taken = r.Int(1) != 0 || r.Int(2) > t.Now
		mine = r.Int(1) != 0 && sojourn.ID(r.Int(0)) == l.ID // it has awaited the key before
		return nil
	}, l.Kind, key)
	if err == nil && taken && !mine { // before any write
		err = sojourn.Conflict("another job of kind %s has the key %.64q", l.Kind, key)
	}
	if err == nil && !mine {
		err = takeFreeKey(t, l, key)
	}
	if err == nil {
		l.Key = key
	}
	return err
}

// takeFreeKey gives the job a key that was just read as free.
func takeFreeKey(t *txn.Tx, l *jobrow.Row, key string) error {
	if err := RememberHolder(t, l.Kind, key, int64(l.ID)); err != nil {
		return err
	}
	n, err := t.Write(QTakeOneKey, l.Kind, key, int64(l.ID), 0, t.Now)
	if err == nil && n == 0 {
		err = txn.Raced("a key was taken meanwhile")
	}
	return err
}

// RememberHolder records the final job that held a key until now, before another job takes it: if
// the taker is deleted one day, the key returns to it (RemoveHolder). The taker may be the same job
// in a later generation, which is not recorded.
func RememberHolder(t *txn.Tx, kind, key string, taker int64) error {
	_, err := t.Write(qRemember, kind, key, taker)
	return err
}

// RemoveHolder removes a job from one of its keys. The newest earlier holder replaces it, if one is
// still stored, so that a response for it is late, and not early for the next job with the key.
func RemoveHolder(t *txn.Tx, id int64, k txn.KindKey) error {
	if k.Key == "" {
		return nil
	}
	if t.Concurrent() { // one transaction at a time changes the past holders of a key
		if err := t.Read(QLockKey, func(sqldb.Row) error { return nil }, k.Kind, k.Key); err != nil {
			return err
		}
	}
	if _, err := t.Write(qForgetHolder, k.Kind, k.Key, id); err != nil {
		return err
	}
	past, err := t.ReadInt(qPastHolder, k.Kind, k.Key)
	if err != nil {
		return err
	}
	if past == 0 {
		_, err := t.Write(qDropKey, k.Kind, k.Key, id)
		return err
	}
	n, err := t.Write(qPassKey, past, k.Kind, k.Key, id)
	if err == nil && n > 0 {
		_, err = t.Write(qForgetHolder, k.Kind, k.Key, past)
	}
	return err
}
