package upkeep

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qExpiredResponses = `select seq, kind, key, outcome, job from sj_response where expires_us > 0 and expires_us <= $1 order by expires_us, seq limit $2`
	qEndEarly         = `update sj_response set outcome = $1, expires_us = $2 where seq = $3 and outcome = $4 and job = 0`
	qForgetResponses  = `delete from sj_response where seq in (ints($1)) and outcome > 2`
	qKeyLive          = `select count(*) from sj_key where kind = $1 and key = $2 and live = 1`
)

// sweepInbox ends the time to live of early responses for which no job came, and deletes those
// whose retention is over. As long as a live job has the key, its Await may still match them.
func sweepInbox(t *txn.Tx, limit int, swept *driver.Swept) error {
	type row struct {
		seq, outcome int64
		kind, key    string
	}
	var rows []row
	err := t.Read(qExpiredResponses, func(r sqldb.Row) error {
		rows = append(rows, row{r.Int(0), r.Int(3), r.Text(1), r.Text(2)})
		return nil
	}, t.Now, limit)
	if err != nil {
		return err
	}
	var gone sqldb.Ints
	for _, r := range rows {
		if r.outcome != txn.OutcomeEarly {
			gone = append(gone, r.seq)
			continue
		}
		outcome, until := txn.OutcomeUnmatched, t.Now+sojourn.DefaultInboxKeep.Microseconds()
		live, err := t.ReadInt(qKeyLive, r.kind, r.key)
		if err != nil {
			return err
		}
		if live > 0 {
			outcome, until = txn.OutcomeEarly, t.Now+t.Core.Cfg.InboxTTL.Microseconds()
		} else {
			swept.Unmatched++
		}
		if _, err := t.Write(qEndEarly, outcome, until, r.seq, txn.OutcomeEarly); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err = t.Write(qForgetResponses, gone)
	return err
}
