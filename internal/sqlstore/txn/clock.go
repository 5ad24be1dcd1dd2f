package txn

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// ReadClock reads the clock for a transaction: the database's own, if it has one. sent is the
// monotonic time before the transaction began (clock.Clock.Monotonic).
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

// ConfirmClock confirms the predicted time of a committed transaction with a reading of the
// server's clock from its last message.
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

// InGrace reports whether the lease of a running row must not end yet, although its time is over:
// it was granted before the latest step of the clock, or before the latest time without a process,
// and so its end may be too early by Gap. A worker that lives extends it before the returned time.
func (t *Tx) InGrace(l *jobrow.Row) (until int64, grace bool) {
	if l.UpdatedAt >= t.Since || t.Gap == 0 {
		return 0, false
	}
	until = min(l.LeaseUntil+t.Gap, t.Since+min(l.LeaseUs, clock.MaxGrace.Microseconds()))
	return until, until > t.Now
}

// GrantGrace writes the present grace into the shared record of the clock, so that the next process
// that opens the store does not grant it again.
func (t *Tx) GrantGrace() error {
	r, ok := t.Core.Clock.Unsaved(t.Now)
	if !ok {
		return nil
	}
	_, err := t.Write(QSwapClock, r.String(), clock.MetaName, r.Text)
	return err
}
