// Package failure counts failures by their cause, see the public package failure.
//
// The id of a group is a hash of its queue, kind, reason and pattern. So a transaction needs no
// read to know it: it adds one row of counts to sj_failure_new for each group, whatever the number
// of failures, and locks nothing. A fold adds these rows up. Any sweep folds, and so does a list.
// The failed job itself has the id of its group in sj_final, and so has each failed step in
// sj_history. Open failures are counted from these rows, so there is no counter of them.
//
// A transaction without failures has no statement of this package.
package failure

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/fingerprint"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/failure"
)

const qAddNew = `insert into sj_failure_new (id, attempts, failed, first_us, last_us, sample_job, queue, kind, reason, pattern, sample)
	rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 text, $8 text, $9 text, $10 text, $11 bytea)`

// cause identifies a group.
type cause struct{ queue, kind, reason, pattern string }

// id is a positive hash of a cause. Each field ends with a NUL, which none of them contains.
func (c cause) id() int64 {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00", c.queue, c.kind, c.reason, c.pattern)
	return max(int64(binary.BigEndian.Uint64(h.Sum(nil))>>1), 1)
}

// counts are failures of one cause.
type counts struct {
	cause
	attempts, failed int64
	first, last      int64 // microseconds
	job              int64
	text             string
}

// add adds other failures of the same cause. The sample is that of the latest.
func (c *counts) add(o *counts) {
	c.attempts, c.failed, c.first = c.attempts+o.attempts, c.failed+o.failed, min(c.first, o.first)
	if o.last >= c.last {
		c.last, c.job, c.text = o.last, o.job, o.text
	}
}

// tally has the failures of one transaction.
type tally map[int64]*counts

// Note counts a transition if a failed attempt or the failure of a job is part of it. It returns
// the id of its group; 0 if it is no failure.
func Note(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition) int64 {
	c := counts{first: t.Now, last: t.Now, job: int64(l.ID)}
	switch sojourn.OutcomeType(tr.Outcome) {
	case sojourn.OutcomeAbort, sojourn.OutcomeUndecodable: // they end the job, whatever it has left
		c.attempts = 1
	default:
		if l.Failures > was.Failures || l.Crashes > was.Crashes {
			c.attempts = 1
		}
	}
	if l.State == sojourn.Failed && was.State.Live() {
		c.failed = 1
	}
	if c.attempts+c.failed == 0 {
		return 0
	}
	c.cause = cause{was.Queue, was.Kind, sojourn.Cut(tr.Reason, sojourn.MaxReason), fingerprint.Of(tr.Error)}
	c.text = sojourn.Cut(tr.Error, failure.MaxSample)
	all, ok := t.Events.Failures.(tally)
	if !ok {
		all = tally{}
		t.Events.Failures = all
		t.Events.Ending = append(t.Events.Ending, flush)
	}
	id := c.id()
	if known := all[id]; known != nil {
		known.add(&c)
	} else {
		all[id] = &c
	}
	return id
}

// flush adds the counts of a transaction to its write set: one statement for all groups.
func flush(t *txn.Tx) {
	all, _ := t.Events.Failures.(tally)
	t.AddColumns(qAddNew, 0, "", all.columns(false))
	t.Events.Failures = nil
}

// columns are the rows of sj_failure_new, or of sj_failure, in the order of their ids.
func (all tally) columns(groups bool) *jobrow.Columns {
	out := jobrow.NewColumns(len(all), 5, 4, 1)
	if groups {
		out = jobrow.NewColumns(len(all), 9, 6, 1)
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c := all[id]
		numbers, texts := []int64{c.attempts, c.failed, c.first, c.last, c.job}, []string{c.queue, c.kind, c.reason, c.pattern}
		if groups {
			other := int64(0)
			if c.pattern == otherPattern {
				other = 1
			}
			numbers, texts = append(numbers, c.last+failure.Keep.Microseconds(), other, 0, 0), append(texts, "", "")
		}
		out.Row(id).Ints(numbers...).Strings(texts...).Bytes([]byte(c.text))
	}
	return out
}
