package txn

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// ConfirmClock confirms the transaction's predicted time with the time of the server's clock.
func (t *Tx) ConfirmClock() error {
	own, ok := t.Conn.(sqldb.Clocked)
	if !ok || t.Core.Cfg.Driven {
		return nil
	}
	now, err := own.Clock()
	if err == nil {
		t.Core.Clock.Confirm(t.Reading, now)
	}
	return err
}

// InGrace reports whether a running row was written before the latest step of the clock, or before
// the latest time without a process, and may therefore end too early by gap. Until the returned
// time its worker, if it lives, extends the lease or shifts it.
func (t *Tx) InGrace(l *jobrow.Row) (until int64, grace bool) {
	if l.UpdatedAt >= t.Since || t.Gap == 0 {
		return 0, false
	}
	until = min(l.LeaseUntil+t.Gap, t.Since+min(l.LeaseUs, clock.MaxGrace.Microseconds()))
	return until, until > t.Now
}

// ReadClock reads the clock for a transaction: the database's own, if it has one. sent is the
// monotonic time before the transaction began.
func (s *Core) ReadClock(c sqldb.Conn, sent int64) (clock.Reading, error) {
	own, ok := c.(sqldb.Clocked)
	if !ok || s.Cfg.Driven {
		return s.Clock.Read(), nil
	}
	now, err := own.Clock()
	if err != nil {
		return clock.Reading{}, err
	}
	return s.Clock.ReadFrom(now, sent), nil
}

const QSwapClock = `update sj_meta set value = $1 where name = $2 and value = $3`

// GrantGrace writes the present grace into the shared record, so that the next process that opens
// the store does not grant it again.
func (t *Tx) GrantGrace() error {
	r, ok := t.Core.Clock.Unsaved(t.Now)
	if !ok {
		return nil
	}
	_, err := t.Write(QSwapClock, r.String(), clock.MetaName, r.Text)
	return err
}
