// Package counters reads the maintained numbers of jobs, adds up their changes, and compares them
// with a recount (docs/decisions/062-maintained-counts.md). Package txn writes the changes.
package counters

import (
	"strings"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Texts of the numbers. A recount reads all jobs.
var (
	names    = strings.Join(jobcount.Names, ", ")
	counters = `select queue, kind, ` + names + ` from sj_count union all select queue, kind, ` + names + ` from sj_count_change`
	recount  = `select queue, kind, ` + sums(jobcount.Names[:7], "state = 1", "state = 2", "state = 3 and resumed = 0", "state = 3 and resumed = 1", "state = 4", "state = 5", "state = 6") +
		`, 0 as completed, 0 as failed, 0 as cancelled, cast(coalesce(sum(held), 0) as bigint) as held from sj_live group by queue, kind
		union all select queue, kind, 0 as blocked, 0 as scheduled, 0 as ready, 0 as resumed, 0 as running, 0 as awaiting, 0 as errored, ` +
		sums(jobcount.Names[7:10], "state = 7", "state = 8", "state = 9") + `, 0 as held from sj_final group by queue, kind`
	total = `select queue, kind, ` + jobcount.Each(", ", func(n string) string { return "cast(sum(" + n + ") as bigint) as " + n })

	qCounts   = total + ` from (` + counters + `) a group by queue, kind`
	qCountsOf = total + ` from (select * from sj_count where queue in (texts($1)) union all select * from sj_count_change where queue in (texts($1))) a group by queue, kind`
	qRecount  = total + ` from (` + recount + `) a group by queue, kind`
	// qDiffer finds where the numbers of jobs differ from the counters: number less counter. One
	// statement sees the same jobs as counters, so the difference stays right after later commits.
	qDiffer = total + ` from (` + recount + ` union all select queue, kind, ` + jobcount.Each(", ", func(n string) string { return "-" + n }) + ` from (` + counters + `) c) a
		group by queue, kind having ` + jobcount.Each(" or ", func(n string) string { return "sum(" + n + ") <> 0" })
)

// Check is the text of a check of the invariants: the number 0, and where and how the counters
// differ from the jobs.
var Check = `select 0, 'jobs more than counted in queue ' || queue || ' of kind ' || kind || ':' || ` +
	jobcount.Each(" || ", func(n string) string {
		return "case when " + n + " <> 0 then ' ' || " + n + " || ' " + n + "' else '' end"
	}) + ` from (` + qDiffer + `) d`

// sums counts the rows with each of these conditions.
func sums(names []string, conditions ...string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = "cast(sum(case when " + conditions[i] + " then 1 else 0 end) as bigint) as " + n
	}
	return strings.Join(texts, ", ")
}

// Read passes on the numbers of queues, of all without names, once for each queue and kind. It
// reads no jobs, unless nothing is counted.
func Read(t *txn.Tx, row func(k jobcount.Key, n *jobcount.Numbers), queues ...string) error {
	scan := func(r sqldb.Row) error {
		row(scanRow(r))
		return nil
	}
	switch {
	case t.Core.Cfg.Without.Counts:
		return t.Read(qRecount, scan)
	case len(queues) > 0:
		return t.Read(qCountsOf, scan, sqldb.Texts(queues))
	}
	return t.Read(qCounts, scan)
}

func scanRow(r sqldb.Row) (jobcount.Key, *jobcount.Numbers) {
	n := &jobcount.Numbers{}
	for i := range n {
		n[i] = r.Int(i + 2)
	}
	return jobcount.Key{Queue: r.Text(0), Kind: r.Text(1)}, n
}
