package sqlstore

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// confirmClock confirms the transaction's predicted time with the time of the server's clock.
func (t *tx) confirmClock() error {
	own, ok := t.Conn.(sqldb.Clocked)
	if !ok || t.s.cfg.Driven {
		return nil
	}
	now, err := own.Clock()
	if err == nil {
		t.s.clock.confirm(t.reading, now)
	}
	return err
}

// inGrace reports whether a running row was written before the latest step of the clock, or before
// the latest time without a process, and may therefore end too early by gap. Until the returned
// time its worker, if it lives, extends the lease or shifts it.
func (t *tx) inGrace(l *live) (until int64, grace bool) {
	if l.updated >= t.since || t.gap == 0 {
		return 0, false
	}
	until = min(l.leaseUntil+t.gap, t.since+min(l.leaseUs, graceMost.Microseconds()))
	return until, until > t.now
}

// read reads the clock for a transaction: the database's own, if it has one. sent is the monotonic
// time before the transaction began.
func (s *core) read(c sqldb.Conn, sent int64) (reading, error) {
	own, ok := c.(sqldb.Clocked)
	if !ok || s.cfg.Driven {
		return s.clock.read(), nil
	}
	now, err := own.Clock()
	if err != nil {
		return reading{}, err
	}
	return s.clock.readFrom(now, sent), nil
}

const qSwapClock = `update sj_meta set value = $1 where name = $2 and value = $3`

// grantGrace writes the present grace into the shared record, so that the next process that opens
// the store does not grant it again.
func (t *tx) grantGrace() error {
	r, ok := t.s.clock.unsaved(t.now)
	if !ok {
		return nil
	}
	_, err := t.exec(qSwapClock, r.String(), metaClock, r.text)
	return err
}
