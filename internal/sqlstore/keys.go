package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// kindKey is a key; each kind has keys of its own.
type kindKey struct{ kind, key string }

// holder is the job that has a key: a live job, or a final one that may keep it.
type holder struct {
	id    sojourn.ID
	queue string
	live  bool
	held  int64 // until when a final one keeps it
	state sojourn.State
	fresh bool // inserted by an earlier call of this transaction, and not written yet
}

const qKey = `select job, live, held_until_us from sj_key where kind = $1 and key = $2`

const (
	// qNewKey is for a transaction that assumes that the key was never used, and fails if it was.
	qNewKey  = `insert into sj_key (job, own, live, held_until_us, kind, key) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 text, $6 text)`
	qTakeKey = qNewKey + ` on conflict (kind, key) do update set job = excluded.job, own = excluded.own, live = excluded.live, held_until_us = excluded.held_until_us
		where sj_key.live = 0 /*hit job*/`
)

const qTakeOneKey = `insert into sj_key (kind, key, job, own, live, held_until_us) values ($1, $2, $3, $4, 1, 0)
	on conflict (kind, key) do update set job = excluded.job, own = excluded.own, live = 1, held_until_us = 0
	where sj_key.live = 0 and sj_key.held_until_us <= $5`

const qLockKey = `select k.job, k.live, k.held_until_us from sj_key k where k.kind = $1 and k.key = $2 /*lock k*/`

// keysTaken reports whether a key to await belongs to another live job.
func (t *tx) keysTaken(l *live, keys []string) (bool, error) {
	for _, k := range keys {
		taken := false
		err := t.query(qKey, func(r sqldb.Row) error {
			taken = sojourn.ID(r.Int(0)) != l.ID && (r.Int(1) != 0 || r.Int(2) > t.now)
			return nil
		}, l.kind, k)
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
}

// setKey gives a running job its key, unless another live job has it.
func (t *tx) setKey(l *live, key string) error {
	if err := sojourn.ValidKey("key", key); err != nil {
		return err
	}
	if l.key != "" {
		return sojourn.Conflict("job %d has the key %.64q already; a key never changes", l.ID, l.key)
	}
	taken, mine := false, false
	err := t.query(qKey, func(r sqldb.Row) error {
		taken = r.Int(1) != 0 || r.Int(2) > t.now
		mine = r.Int(1) != 0 && sojourn.ID(r.Int(0)) == l.ID // it has awaited the key before
		return nil
	}, l.kind, key)
	if err == nil && taken && !mine { // before any write
		err = sojourn.Conflict("another job of kind %s has the key %.64q", l.kind, key)
	}
	if err == nil && !mine {
		err = t.takeFreeKey(l, key)
	}
	if err == nil {
		l.key = key
	}
	return err
}

// takeFreeKey gives the job a key that was just read as free.
func (t *tx) takeFreeKey(l *live, key string) error {
	if err := t.rememberHolder(l.kind, key, int64(l.ID)); err != nil {
		return err
	}
	n, err := t.exec(qTakeOneKey, l.kind, key, int64(l.ID), 0, t.now)
	if err == nil && n == 0 {
		err = raced("a key was taken meanwhile")
	}
	return err
}

const (
	qRemember = `insert into sj_key_past (kind, key, job) select k.kind, k.key, k.job from sj_key k where k.kind = $1 and k.key = $2 and k.live = 0
		and k.job <> $3 and exists (select 1 from sj_final f where f.id = k.job) on conflict (kind, key, job) do nothing`
	qPastHolder   = `select coalesce(max(job), 0) from sj_key_past where kind = $1 and key = $2`
	qForgetHolder = `delete from sj_key_past where kind = $1 and key = $2 and job = $3`
	qForgetJob    = `delete from sj_key_past where job = $1` // own and awaited keys
	qPassKey      = `update sj_key set job = $1, own = 0, held_until_us = 0 where kind = $2 and key = $3 and job = $4 and live = 0`
	qAwaitedKeys  = `select kind, key from sj_key where job = $1 and own = 0 order by kind, key`
	qDropKey      = `delete from sj_key where kind = $1 and key = $2 and job = $3 and live = 0`
)

// rememberHolder records the final job that held a key until now, before another job takes it. The
// new job may have held it itself, in an earlier generation.
func (t *tx) rememberHolder(kind, key string, taker int64) error {
	_, err := t.exec(qRemember, kind, key, taker)
	return err
}

// removeHolder removes a job from one of its keys. The newest earlier holder replaces it, if one is
// still stored, so that a response for it is late, and not early for the next job with the key.
func (t *tx) removeHolder(id int64, k kindKey) error {
	if k.key == "" {
		return nil
	}
	if t.concurrent() { // one transaction at a time changes the past holders of a key
		if err := t.query(qLockKey, func(sqldb.Row) error { return nil }, k.kind, k.key); err != nil {
			return err
		}
	}
	if _, err := t.exec(qForgetHolder, k.kind, k.key, id); err != nil {
		return err
	}
	past, err := t.num(qPastHolder, k.kind, k.key)
	if err != nil {
		return err
	}
	if past == 0 {
		_, err := t.exec(qDropKey, k.kind, k.key, id)
		return err
	}
	n, err := t.exec(qPassKey, past, k.kind, k.key, id)
	if err == nil && n > 0 {
		_, err = t.exec(qForgetHolder, k.kind, k.key, past)
	}
	return err
}

// mayBeUnseen records a key under which a response and the job that waits for it may have missed
// each other, because both are written by concurrent transactions that share no row: a response to
// a key without a job, and a wait that registered a key.
func (t *tx) mayBeUnseen(kind, key string) {
	if key != "" && t.concurrent() {
		t.unseen = append(t.unseen, kindKey{kind, key})
	}
}

// waits holds prefetched reads for the steps of a transaction that begin to wait.
type waits struct {
	keys         map[sojourn.ID][]string // keys of earlier waits, by job
	nothingEarly map[kindKey]bool        // keys without an early response
}
