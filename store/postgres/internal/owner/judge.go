package owner

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	// lookEvery is the least time between two looks for missing locks.
	lookEvery = 900 * time.Millisecond
	// ConfirmAfter is the least time for which the lock of an owner is missing before its leases
	// end. A living process that has lost its connection erases its record within that time.
	ConfirmAfter = 900 * time.Millisecond
	// calm is the time after a failure of its own connections for which a process judges nobody:
	// the same failure may have cut off others.
	calm = time.Minute
	// neighbours bounds the locks that a look tries: those of the owners that follow in the order
	// of ids. So the cost for the server is in proportion to the number of processes.
	neighbours = "100"
)

// qMissing lists the owners whose lock is missing. SELF is the id of the process that looks. The
// inner LIMIT keeps the server from trying the locks of other rows.
const qMissing = `select coalesce(string_agg(o.id || ' ' || cast(o.lock_key as text), ','), '') from (select n.id, n.lock_key from (
	(select id, lock_key from sj_owner where id > 'SELF' and server_us = ` + started + ` order by id limit ` + neighbours + `)
	union all (select id, lock_key from sj_owner where id < 'SELF' and server_us = ` + started + ` order by id limit ` + neighbours + `)
	) n limit ` + neighbours + `) o where pg_try_advisory_xact_lock_shared(o.lock_key)`

// qConfirm locks the record of an owner that was found dead, so that it cannot come back before the
// transaction ends. $2 is the key of the missing lock.
const qConfirm = `select 1 from sj_owner where id = $1 and lock_key = $2 and pg_try_advisory_xact_lock_shared($2) for update`

// Judge finds dead owners. Safe for concurrent use.
type Judge struct {
	Missing string           // the statement of a look: its answer is for Note
	Now     func() time.Time // tests replace it

	acting sync.Mutex // held while act runs

	mu        sync.Mutex // guards the fields below
	act       func()     // ends the leases of dead owners
	closed    bool
	lookedAt  time.Time
	disturbed time.Time // when a connection of this process failed last
	missing   map[string]suspect
	looks     int
}

// NewJudge makes a Judge for the process whose owner is self.
func NewJudge(self *Owner, text func(string) string) *Judge {
	return &Judge{Missing: strings.ReplaceAll(text(qMissing), "SELF", self.id), Now: time.Now}
}

// OnDeath sets what to call when an owner may be dead; see sqldb.Verdicts.
func (j *Judge) OnDeath(act func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.act = act
}

// Close has nothing acted on any more.
func (j *Judge) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
}

// suspect is an owner whose lock is missing.
type suspect struct {
	key       int64
	since     time.Time
	confirmed bool
}

// Due reports whether it is time to look for missing locks.
func (j *Judge) Due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.Now()
	return (j.disturbed.IsZero() || now.Sub(j.disturbed) >= calm) && (j.lookedAt.IsZero() || now.Sub(j.lookedAt) >= lookEvery)
}

// Note takes the answer of a look that was sent at a time. It has confirmed deaths acted on, and
// suspected ones looked at again after ConfirmAfter.
func (j *Judge) Note(answer string, sent time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if sent.Before(j.disturbed) {
		return
	}
	j.lookedAt = sent
	j.looks++
	before := j.missing
	j.missing = map[string]suspect{}
	suspected, confirmed := false, false
	for entry := range strings.SplitSeq(answer, ",") {
		id, text, ok := strings.Cut(entry, " ")
		key, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			continue
		}
		s := before[id]
		if s.key != key {
			s = suspect{key: key, since: j.Now()}
			suspected = true
		}
		s.confirmed = s.confirmed || sent.Sub(s.since) >= ConfirmAfter
		confirmed = confirmed || s.confirmed
		j.missing[id] = s
	}
	switch {
	case confirmed:
		time.AfterFunc(0, j.run)
	case suspected:
		time.AfterFunc(ConfirmAfter+ConfirmAfter/50, j.run)
	}
}

// run calls act, once at a time.
func (j *Judge) run() {
	j.mu.Lock()
	act, closed := j.act, j.closed
	j.mu.Unlock()
	if act != nil && !closed && j.acting.TryLock() {
		defer j.acting.Unlock()
		act()
	}
}

// Disturb reports that a connection of this process has failed.
func (j *Judge) Disturb() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disturbed, j.missing = j.Now(), nil
}

// Dead lists the owners whose lock was missing twice.
func (j *Judge) Dead() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, s := range j.missing {
		if s.confirmed {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// keyOf returns the missing key of a dead owner; false if it is no longer taken for dead.
func (j *Judge) keyOf(id string) (key int64, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.missing[id]
	return s.key, s.confirmed
}

// End calls end for each dead owner, and then deletes its record with remove if end returns true.
func (j *Judge) End(end func(id string) (finished bool, err error), remove func(q string, args ...any) error) error {
	for _, id := range j.Dead() {
		key, ok := j.keyOf(id)
		if !ok {
			continue
		}
		finished, err := end(id)
		if err == nil && finished {
			err = remove(qErase, id, key)
		}
		if err != nil {
			return err
		}
		if finished {
			j.forget(id)
		}
	}
	return nil
}

// Confirm checks in the transaction of c whether an owner is still dead.
func (j *Judge) Confirm(c sqldb.Conn, text func(string) string, id string) (dead bool, err error) {
	key, ok := j.keyOf(id)
	if !ok {
		return false, nil
	}
	err = c.Query(text(qConfirm), func(sqldb.Row) error { dead = true; return nil }, id, key)
	return dead, err
}

// forget removes an owner after its leases have ended.
func (j *Judge) forget(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.missing, id)
}

// Looks is the number of looks, for tests.
func (j *Judge) Looks() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.looks
}
