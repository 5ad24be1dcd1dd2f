package counters

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// MetaName is the name in sj_meta of whether the numbers of jobs are maintained. Without the row
// they have not been, and the process that opens the store counts all jobs once.
const (
	MetaName   = "counts"
	Maintained = "maintained"
	off        = "off" // a process with Without.Counts has used the store
)

// qLock lets one transaction correct the numbers at a time.
const qLock = `select m.value from sj_meta m where m.name = $1 /*lock m*/`

// Open makes the numbers right in a store where they were not maintained. If it writes, it ends the
// transaction.
func Open(t *txn.Tx) error {
	state := ""
	if err := t.Read(txn.QMeta, func(r sqldb.Row) error { state = r.Text(0); return nil }, MetaName); err != nil {
		return err
	}
	if t.Core.Cfg.Without.Counts {
		if state == off {
			return nil
		}
		_, err := t.Write(txn.QSetMeta, MetaName, off)
		return err
	}
	if state == Maintained {
		return nil
	}
	if _, err := t.Write(txn.QInitMeta, MetaName, off); err != nil {
		return err
	}
	if _, err := Correct(t); err != nil {
		return err
	}
	if _, err := t.Write(txn.QSetMeta, MetaName, Maintained); err != nil {
		return err
	}
	return t.End()
}

// Correct adds the differences that a recount finds, and returns them. A lock keeps two
// transactions from adding the same.
func Correct(t *txn.Tx) (found []Difference, err error) {
	txn.WriteCounts(t)
	if err := t.Read(qLock, func(sqldb.Row) error { return nil }, MetaName); err != nil {
		return nil, err
	}
	if err := t.Read(qDiffer, func(r sqldb.Row) error {
		k, n := scanRow(r)
		found = append(found, Difference{k, *n})
		return nil
	}); err != nil {
		return nil, err
	}
	for i := range found {
		t.Counts.Correct(found[i].Key, &found[i].By)
	}
	return found, nil
}

// Difference is how the jobs of a queue and kind differ from the numbers that were maintained.
type Difference struct {
	jobcount.Key
	By jobcount.Numbers // jobs less counted ones
}
