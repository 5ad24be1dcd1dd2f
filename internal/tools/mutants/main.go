// Command mutants plants one bug at a time and runs the tests that must notice it. It prints
// caught/planted and exits 1 if one survives.
//
//	go run -C internal/tools ./mutants [-only NAME] [-random N [-seed S]] [-sim] [-v] [-dry]
//
// With -sim only the in-memory simulation runs, so that the figure counts its own catches.
//
// A mutant replaces one piece of text in one file by go test's -overlay, so the tree itself is
// never touched.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mutant is a planted bug.
type mutant struct {
	name     string
	file     string // below the project's root
	old, new string // old stands in the file exactly once
	test     string // packages whose tests must fail
}

const store = "./store/sqlite"

var mutants = []mutant{
	{"fence without the epoch", "internal/sqlstore/jobrow/row.go", "l.Epoch == lease.Epoch && ", "", store},
	{"fence without the worker", "internal/sqlstore/jobrow/row.go", " && l.Worker == lease.Worker", "", store},
	{"fence without the state", "internal/sqlstore/jobrow/row.go", "lease.Worker && l.State == sojourn.Running", "lease.Worker", store},
	{"repeated finish of a live job without the epoch", "internal/sqlstore/finish/finish.go", "where job = $1 and epoch = $2 and worker = $3", "where job = $1 and $2 = $2 and worker = $3", store},
	{"repeated finish of a final job without the epoch", "internal/sqlstore/finish/finish.go", "and step_epoch = $2 and worker = $3", "and $2 = $2 and worker = $3", store},
	{"a redrive forgets the last row of the history", "internal/sqlstore/operate/redrive.go", "if _, err := t.Write(qKeepLast, int64(j.ID)); err != nil {", "if err := error(nil); err != nil {", store},
	{"a redrive does not count", "internal/sqlstore/operate/redrive.go", "\tt.Counts.Removed(j.Queue, j.Kind, j.State)\n", "", store},
	{"retention does not count", "internal/sqlstore/upkeep/retention.go", "\tt.Counts.Removed(f.Queue, f.Kind, f.State)\n", "", store},
	{"a resumed job counts as ready", "internal/sqlstore/jobcount/jobcount.go", "case state == sojourn.Ready && resumed:", "case false:", store},
	{"a bulk start does not count", "internal/sqlstore/claim/bulkstart.go", "\tc.Counts.Started(l)\n", "", "./store/postgres"},
	{"a repeated fold", "internal/sqlstore/statistics/fold.go", "delete from sj_stat_change where rowid in (select rowid from sj_stat_change limit $1)", "update sj_stat_change set day = day where rowid in (select rowid from sj_stat_change limit $1)", store},
	{"statistics of another tenant", "internal/sqlstore/statistics/read.go", "|| !c.Allows(access.VerbRead, k.Queue, k.Kind)", "|| false && c == nil", store},
	{"a wait contains the step before", "internal/sqlstore/lifecycle/measure.go", "max(l.RunAt, back)", "l.RunAt+0*back", store},
	{"the last row of the history has the epoch of the job", "internal/sqlstore/jobview/history.go", "attempt, step_epoch, purpose", "attempt, epoch, purpose", store},
	{"the last row of the history stands in both tables", "internal/sqlstore/lifecycle/apply.go", "Last: history(t, was, l, tr, c), Now: l", "Last: func() txn.HistoryRow { AddHistory(t, was, l, tr, c); return t.Writes.History[len(t.Writes.History)-1] }(), Now: l", store},
	{"what is ordinary changes", "internal/sqlstore/jobrow/policy.go", "MaxAttempts: 5", "MaxAttempts: 6", "./internal/sqlstore/jobrow"},
	{"repeated finish without the outcome", "internal/sqlstore/finish/finish.go", "r.Text(0) == string(o.Type)", "true", store},
	{"redrive of completed jobs", "rules/decide.go", "r.State == sojourn.Failed || r.State == sojourn.Cancelled {", "r.State.Final() {", "./rules"},
	{"weight kept after an error", "rules/decide.go", "t.To.State, t.To.Purpose, t.To.Resumed, t.To.Held = to, sojourn.NoPurpose, false, 0", "t.To.State, t.To.Purpose, t.To.Resumed = to, sojourn.NoPurpose, false", "./rules"},
	{"weight returned at an await", "rules/decide.go", "t.To.Held, t.To.Wait = r.Held, o.Wait", "t.To.Wait = o.Wait", "./rules"},
	{"a snooze counts an attempt", "rules/decide.go", "t := ended(r, \"F7\", sojourn.Scheduled, o)", "r.AttemptOpen = false\n\t\tt := ended(r, \"F7\", sojourn.Scheduled, o)", "./rules"},
	{"a lost lease counts as a failure", "rules/decide.go", "n = r.Crashes + 1\n\t\tt.To.Crashes, fail", "n = r.Crashes + 1\n\t\tt.To.Failures, fail", "./rules"},
	{"one attempt too many", "rules/decide.go", "budget >= 0 && n >= budget", "budget >= 0 && n > budget", "./rules"},
	{"errors drop the response in hand", "rules/decide.go", "if o.Verdict.Again && r.InHand > 0 {", "if r.InHand > 0 {", "./rules"},
	{"kept responses stay at the end", "rules/decide.go", "t.HandLate, t.KeptLate = r.InHand > 0 && !r.Given, r.Kept > 0", "t.HandLate = r.InHand > 0 && !r.Given", "./rules"},
	{"an await does not look into the inbox", "internal/sqlstore/lifecycle/await.go", "early = append(early, r.Int(0)); return nil", "return nil", store},
	{"a response does not match a retry", "rules/match.go", "case waitsForRetry:", "case false && waitsForRetry:", "./rules"},
	{"no match after a finish", "internal/sqlstore/finish/finish.go", "l, err = lifecycle.Match(b.Tx, l)", "_ = lifecycle.Match", store},
	{"no match after a sweep", "internal/sqlstore/lifecycle/overdue.go", "_, err = Match(t, l)", "_ = l", store},
	{"duplicates are stored again", "internal/sqlstore/respond/store.go", "first != nil {", "first != nil && false {", store},
	{"a stale token is accepted", "internal/sqlstore/respond/store.go", "to.token && (to.generation", "false && to.token && (to.generation", store},
	{"a token answers every wait of its attempt", "internal/sqlstore/respond/store.go", " || to.wait != l.Waits", "", store},
	{"the answer of a poll does not count its wait", "rules/decide.go", "\t\tt.To.Waits++\n", "", "./rules"},
	{"what a token has left kept answers the next wait", "rules/match.go", "k.ByToken && k.Wait < r.Waits", "k.ByToken && k.Wait < 0", "./rules"},
	{"an answer that ends a wait alone does not count it", "internal/sqlstore/jobrow/columns.go", "waits = waits + 1, ", "", store},
	{"tokens of a claim name the first wait", "internal/sqlstore/claim/claim.go", "j.Attempt, waits[j.ID])", "j.Attempt, 0*waits[j.ID])", store},
	{"the key stays taken", "internal/sqlstore/txn/writeset.go", "update sj_key set live = 0, held_until_us", "update sj_key set live = 1, held_until_us", store},
	{"the key is not kept", "internal/sqlstore/lifecycle/apply.go", "r.Held = t.Now + keep.Microseconds()", "r.Held = keep.Microseconds() - keep.Microseconds()", store},
	{"an id is good for ever", "internal/sqlstore/enqueue/checkid.go", "&& b.Now-last.Leased > sojourn.IDLife.Microseconds():", "&& false:", store},
	{"retention takes the dependencies of a redriven job", "internal/sqlstore/upkeep/retention.go", "n > 0 {\n\t\t\tremoved", "n >= 0 {\n\t\t\tremoved", "-run=^TestRetentionOfARedrivenJob$ ./store/postgres"},
	{"retention of young jobs", "internal/sqlstore/upkeep/retention.go", "t.Now-sojourn.IDLife.Microseconds()-1)", "t.Now)", store},
	{"retention takes failed jobs", "rules/rank.go", "if s == sojourn.Failed {", "if s == sojourn.Failed && false {", "./rules " + store},
	{"an early response expires beside a live job", "internal/sqlstore/upkeep/sweepinbox.go", "if live > 0 {", "if live < 0 {", store},
	{"claims ignore a pause", "internal/sqlstore/claim/pick.go", "case has.Paused:", "case has.Paused && has.Gated:", store},
	{"claims ignore the order", "internal/sqlstore/claim/pick.go", "slices.SortFunc(line, jobrow.CompareCandidates)\n\treturn line", "slices.SortFunc(line, func(a, b jobrow.Candidate) int { return jobrow.CompareCandidates(b, a) })\n\treturn line", store},
	{"a repeated claim claims again", "internal/sqlstore/claim/repeat.go", "if r.Number > last {", "if r.Number > 0 {", store},
	{"a claim of a caller that is gone keeps its leases", "internal/sqlstore/claim/claim.go", "\t\ts.release(jobs)\n", "", store},
	{"extend shortens", "internal/sqlstore/finish/lease.go", "l.LeaseUntil = max(l.LeaseUntil, t.Now+l.LeaseUs)\n\t\tt.Core.Leasing", "l.LeaseUntil = t.Now + l.LeaseUs/2\n\t\tt.Core.Leasing", store},
	{"a lease twice as long", "internal/sqlstore/claim/take.go", "t.Now+r.Lease.Microseconds()", "t.Now+2*r.Lease.Microseconds()", store},
	{"the timeout runs while resumed", "internal/sqlstore/claim/take.go", "l.TimeoutAt += t.Now - was.ResumedAt", "l.TimeoutAt += 0", store},
	{"no deadline", "internal/sqlstore/lifecycle/overdue.go", "if past(deadline) {", "if past(deadline) && false {", store},
	{"a step that begins after its clock ends at once", "internal/sqlstore/jobrow/row.go", "return max(us, l.BeganAt) + l.LeaseUs", "return us + l.LeaseUs", store},
	{"a resumed step begins without time", "internal/sqlstore/claim/take.go", "l.TimeoutAt <= t.Now {", "l.TimeoutAt < 0 {", store},
	{"no match after a discard", "internal/sqlstore/operate/inbox.go", "\t_, err = lifecycle.Match(t, &now) // the next", "\t_ = lifecycle.Match // the next", store},
	{"acknowledged before the commit", "internal/sqlstore/enqueue/enqueue.go", "a, err := txn.Do(ctx, s.core, s.Op, rows, s.newRequest(access.CallerOf(ctx), jobs, partial))", "req, a, err := s.newRequest(access.CallerOf(ctx), jobs, partial), Answer{done: make([]sojourn.Enqueued, len(jobs))}, error(nil)\n\tgo txn.Do(context.WithoutCancel(ctx), s.core, s.Op, rows, req)", store},
	{"synchronous off", "store/sqlite/pragma.go", `{"synchronous", "normal", "1"}`, `{"synchronous", "off", "0"}`, store},
	{"acknowledged before the disk has it", "store/sqlite/db.go", "if err == nil && !silent {\n\t\terr = d.log.durable()", "if err == nil && !silent && false {\n\t\terr = d.log.durable()", store},
	{"a reader is told before the disk has it", "store/sqlite/db.go", "d.view(ctx, fn); err != nil {\n\t\treturn err\n\t}\n\tif err := d.log.durable(); err", "d.view(ctx, fn); err != nil {\n\t\treturn err\n\t}\n\tif err := error(nil); err", store},
	{"a duplicate in a transaction of the application is told before the disk has it", "internal/sqlstore/enqueue/enqueuetx.go", "bool { return e.Duplicate })", "bool { return e.Duplicate && false })", store},
	{"a removed file goes unnoticed", "store/sqlite/place.go", "err == nil && found == p.file", "err == nil && found == p.file || true", store},
	{"a commit that was written before a sync ended counts as synced", "store/sqlite/log.go", "\tcovered := l.visible()\n\tif err := l.sync(f); err != nil {", "\terr := l.sync(f)\n\tcovered := l.visible()\n\tif err != nil {", store},
	{"a failed sync is forgotten", "store/sqlite/log.go", "\t\tl.life.fail(err)\n", "", store},
	{"one failing request fails its group", "internal/sqlstore/run.go", "(helped || len(group) > 1) && s.core.Broken.Load() == nil &&", "(helped || len(group) > 1) && s.core.Broken.Load() != nil &&", store},
	{"a step of the clock ends leases", "internal/sqlstore/txn/clock.go", "if l.UpdatedAt >= t.Since || t.Gap == 0 {", "if true {", "./internal/sqlstore/txn"},
	{"a refused call leaves what it has planned", "internal/sqlstore/enqueue/plan.go", "\t\t\t\treturn nil, indexed\n", "\t\t\t\tb.plans = append(b.plans, b.callPlan)\n\t\t\t\treturn nil, indexed\n", store},
	{"a look does not see what was decided", "internal/sqlstore/txn/transaction.go", "func (t *Tx) Read(q string, each func(sqldb.Row) error, args ...any) error {\n\tif err := t.Flush(); err != nil {", "func (t *Tx) Read(q string, each func(sqldb.Row) error, args ...any) error {\n\tif err := error(nil); err != nil {", store},
	{"history loses its number", "internal/sqlstore/lifecycle/apply.go", "\tl.History++\n", "\tl.History += 2\n", store},
	{"pruned jobs leave their log", "internal/sqlstore/upkeep/retention.go", "\tjoblog.QForget,\n", "", store},
	{"the producer pays for a claim", "internal/sqlstore/run.go", "(helped || len(group) > 1)", "(helped && false || len(group) > 1)", store},
	{"a reserved claim gets no jobs", "internal/sqlstore/wake/hub.go", "w.Answer = &answers[i]", "w.Answer = nil", store},
	{"a repeated claim leaves the first one waiting", "httpapi/server/internal/claimants/claimants.go", "if number == 0 || before", "if number >= 0 || before", "-run=^TestRepeatedClaim ./httpapi"},
	{"a repeated claim does not wait for what is given back", "httpapi/server/internal/claimants/claimants.go", "\t\tselect {\n\t\tcase <-before", "\t\tselect {\n\t\tdefault:\n\t\t\tcs.mu.Lock()\n\t\t\tdelete(cs.under, worker)\n\t\t\tcs.mu.Unlock()\n\t\tcase <-before", "-run=^TestRepeatedClaim ./httpapi"},
	{"a job that starts at once is stored as ready", "internal/sqlstore/txn/inserts.go", "f.Now, f.started = l, true", "f.started = true", store},
	{"jobs that are stored stand in front", "internal/sqlstore/txn/inserts.go", "jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2,", "jobrow.Candidate{ID: int64(l.ID),", store},
	{"a guess passes over what is ready", "store/postgres/dialect.go", "kind in (texts($5)) and state = 3)\n", "kind in (texts($5)) and state = 33)\n", "-run=^TestGuess ./store/postgres"},
	{"a guess passes over what is due", "store/postgres/dialect.go", "(select 1 from sj_live where wake_at_us <= $3 and", "(select 1 from sj_live where wake_at_us <= cast($3 as bigint) / 2 and", "-run=^TestGuess ./store/postgres"},
	{"a guess passes over a drain", "store/postgres/dialect.go", "claim_no = $7 and drained = 0)", "claim_no = $7)", "-run=^TestGuess ./store/postgres"},
	{"a guess passes over a pause of all", "store/postgres/dialect.go", "where name = '*' and paused", "where name = '**' and paused", "-run=^TestGuess ./store/postgres"},
	{"the validator of queues ignores new settings", "internal/sqlstore/txn/validate.go", "q.settings = each($2 text) and q.flow = each($3 text)", "each($2 text) is not null and each($3 text) is not null", "-run=^TestGuess ./store/postgres"},
	{"a finish does not validate its predicted time", "store/postgres/dialect.go", "TextValidateClock: `select 1 where cast(", "TextValidateClock: `select 1 where 1 = 1 or cast(", "-run=^TestGuess ./store/postgres"},
	{"a wrong guess moves the clock", "internal/sqlstore/clock/clock.go", "\treturn Reading{Now: max(c.last, now), Since:", "\tc.last = max(c.last, now)\n\treturn Reading{Now: c.last, Since:", "-run=^TestClock ./internal/sqlstore/clock"},
	{"a claim does not compare its worker's last claim number", "internal/sqlstore/claim/repeat.go", "where worker = $1 and claim_no = $6`", "where worker = $1 and claim_no <> -$6`", "-run=^TestOneAnswer ./store/postgres"},
	{"each claim updates the indexes of its worker", "internal/sqlstore/claim/repeat.go", "$5 - seen_us < $7", "$5 - seen_us < 0 * $7", "-run=^TestClaims ./store/postgres"},
	{"queue settings are validated before the writes", "internal/sqlstore/txn/writeset.go", "late = append(late, t.Cache.Validators.Last)", "late = append([]Statement{t.Cache.Validators.Last}, late...)", "-run=^TestGuessedPlaces ./store/postgres"},
	{"a reshaping does not wait for those who have written by older settings", "internal/sqlstore/upkeep/reindex.go", "if t.Concurrent() && r.waited != q.Layout {", "if false {", "-run=^TestOpenTransactions ./store/postgres"},
	{"dead rows are not counted", "internal/sqlstore/run.go", "\ts.core.NoteDead(done.Events.Dead)\n", "", "-run=^TestDeadRows ./store/postgres"},
	{"a vacuum does not rest", "internal/sqlstore/vacuum/vacuum.go", "|| time.Now().Before(c.from) {", "{", "-run=^TestVacuum ./internal/sqlstore/vacuum"},
	{"joins are planned by how few rows there are", "store/postgres/dialect.go", "= any(array[%s])", "= %s", "-run=^TestPlansOf ./store/postgres"},
	{"jobs start alike that are not", "store/postgres/internal/texts/texts.go", " and l.history = 0", "", "-run=^TestJobsAlike ./store/postgres"},
	{"jobs start alike that somebody has locked", "store/postgres/internal/texts/texts.go", " for update skip locked", "", "-run=^TestJobsAlike ./store/postgres"},
	{"jobs start alike at any time", "store/postgres/internal/texts/texts.go", "select 1 where cast(", "select 1 where 1 = 1 or cast(", "-run=^TestStartedBy ./store/postgres"},
	{"a bulk start skips jobs that differ", "internal/sqlstore/claim/bulkstart.go", "case b.picked != int64(len(b.rows)):", "case false:", "-run=^TestJobsAlike ./store/postgres"},
	{"bulk starts are tried for jobs that differ", "internal/sqlstore/claim/shapes.go", "\tcase !j.fits(rows):", "\tcase !j.fits(rows) && false:", "-run=^TestUnlikeJobs ./store/postgres"},
	{"a refusal is decided from the cache", "internal/sqlstore/enqueue/plan.go", "if b.Cache.Validators != nil {\n\t\t\t\treturn nil, txn.Raced(", "if false {\n\t\t\t\treturn nil, txn.Raced(", "-run=^TestConformance$/^an_id ./store/postgres"},
	{"a second try keeps the settings of the first", "internal/sqlstore/enqueue/plan.go", "\treq.restore()\n", "", "-run=^TestConformance$/^defaults ./store/postgres"},
	{"a call does not see the one before it", "internal/sqlstore/enqueue/batch.go", "\t\t\tb.register()\n", "", "-run=^TestEnqueuesOfOneKey ./store/sqlite"},
	{"bytes are those of the next row", "store/postgres/conn.go", "return append([]byte{}, v...)", "return v", "-run=^TestConformance$ ./store/postgres"},
	{"all rows have the value of the first", "internal/sqlstore/jobrow/columnvalues.go", "if c.n > 0 && v != c.same || c.all != nil {", "if c.all != nil {", "./internal/sqlstore/jobrow"},
	{"cached ids stay free when others write", "internal/sqlstore/txn/localrows.go", "localRows{version: version}, true", "localRows{version: version, free: k.free}, true", "-run=^TestLeasedIDs ./store/sqlite"},
	{"an id is unused twice", "internal/sqlstore/txn/localrows.go", "*word |= bit", "_ = bit", "-run=^TestLeasedIDs ./store/sqlite"},
	{"claims from a backlog do not run concurrently", "internal/sqlstore/claim/claim.go", "if s.concurrent.Add(1) > maxConcurrent {", "if s.concurrent.Add(1) > 0 {", "-run=^TestConcurrentClaims ./internal/sqlstore/claim"},
	{"concurrent claims have no limit", "internal/sqlstore/claim/claim.go", "if s.concurrent.Add(1) > maxConcurrent {", "if s.concurrent.Add(1) > 99 {", "-run=^TestConcurrentClaims ./internal/sqlstore/claim"},
	{"jobs that were not prefetched are not read", "internal/sqlstore/claim/prefetch.go", "if len(rest) > 0 {", "if false {", "-run=^TestConformance$/^queues_in_order ./store/postgres"},
	{"ids stand twice in a call", "internal/sqlstore/enqueue/plan.go", "if jobs[i-1].ID >= jobs[i].ID {", "if jobs[i-1].ID > jobs[i].ID {", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"a row is trusted without its mark", "store/postgres/dialect.go", " and cast(cast(l.xmin as text) as bigint) = v.mark returning", " returning", "-run=^TestFinishTrust ./store/postgres"},
	{"a runner takes crumbs beside others", "internal/sqlstore/groupcommit/lane.go", "if l.shouldStart(l.busy - 1) {", "if l.rows > 0 {", "./internal/sqlstore/groupcommit"},
	{"a second claim uses the prefetch of the first", "internal/sqlstore/claim/batch.go", "\t\tif i > 0 {\n", "\t\tif i < 0 {\n", "-run=^TestClaim ./store/postgres"},
	{"a claim does not prefetch again after its transaction has changed rows", "internal/sqlstore/claim/batch.go", "case c.firstMessage && changed && c.bulk == nil:", "case c.firstMessage && changed && false:", "-run=^TestClaim ./store/postgres"},
	{"what a join has in common is one value", "store/postgres/same.go", "!strings.HasPrefix(st.Text, \"insert \") && !strings.HasPrefix(st.Text, \"delete \") || ", "", "-run=^TestFold ./store/postgres"},
	{"rows are local whoever writes", "internal/sqlstore/txn/localrows.go", "localRows{version: version}, true", "localRows{version: version, rows: k.rows}, true", "-run=^TestPoisonedLives$ ./store/sqlite"},
	{"cached rows are deleted without their mark", "store/postgres/dialect.go", " and cast(cast(l.xmin as text) as bigint) = v.mark returning", " returning", "-run=^TestConformancePoisoned$ ./store/postgres"},
	{"cached queues are not validated", "internal/sqlstore/txn/validate.go", " and q.settings = each($2 text) and", " and each($2 text) is not null and", "-run=^TestPoisonedLives$ ./store/postgres"},
	{"a bulk start does not compare weights", "store/postgres/internal/texts/texts.go", " and l.weight = $11", " and $11::bigint is not null", "-run=^TestConformancePoisoned$ ./store/postgres"},
	{"events are read while an older transaction is open", "store/postgres/dialect.go", " and xid < ` + texts.OldestOpen + ` order by xid, id limit $3`", " order by xid, id limit $3`", "-run=^TestEventsOfALateTransaction$ ./store/postgres"},
	{"a cached clock is not validated", "store/postgres/dialect.go", "TextValidateClock: `select 1 where cast(", "TextValidateClock: `select 1 where 1 = 1 or cast(", "-run=^TestPoisonedLives$ ./store/postgres"},
	{"retention does not ask archives when it deletes", "internal/sqlstore/upkeep/archives.go", " and not exists (` + query.HeldBy(\"$3\") + `)`", " and (cast($3 as bigint) >= 0 or exists (` + query.HeldBy(\"$3\") + `))`", "-run=^TestArchiveBesideRetention$ ./store/postgres"},
	{"an earlier generation that was exported lets retention delete a job", "internal/sqlstore/query/archives.go", " and x.generation = f.generation", "", "-run=^TestConformanceMemory$/^an_archive_and_a_redrive ./store/sqlite"},
	{"an archive is leased to two runners", "internal/sqlstore/archives/archives.go", " and (runner = $3 or lease_us <= $5)", " and (runner = $3 or $5 > 0)", "-run=^TestConformanceMemory$/^leases_of_archives ./store/sqlite"},
	{"a commit of this process ends the search for one of another", "store/sqlite/internal/follow/follow.go", "\t\tif pause *= 2; pause > lastCheck {", "\t\tif pause *= 2; pause > lastCheck || f.version > 0 {", "-run=^TestLateCommit$ ./store/sqlite/internal/follow"},
	{"a commit that no transaction has found is not told", "store/sqlite/db.go", "if err == nil && c.version != 0 {", "if c.version != 0 {", "-run=^TestUnseen$ ./store/sqlite"},
	{"a redriven member does not wait for one that is redriven too", "internal/sqlstore/edge/again.go", "!e.waits && !e.isMember", "!e.waits", "-run=^TestSimulation$ ./store/sqlite"},
	{"a member whose redrive is refused keeps others blocked", "internal/sqlstore/operate/redrive.go", "edge.Post(t, r.Stayed)", "edge.Post(t, nil)", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"a first failure calls back in the first generation only", "internal/sqlstore/member/member.go", "w.Fired < w.Generation {", "w.Fired < 1 {", "-run=^TestSimulation$ ./store/sqlite"},
	{"a redriven member that fails again is counted once", "internal/sqlstore/member/member.go", "e.add(state, -1)", "if state != sojourn.Failed {\n\t\t\te.add(state, -1)\n\t\t}", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"run now takes the place of a tick", "internal/sqlstore/schedules/set.go", "moment%second == 0 || taken[moment]", "taken[moment]", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"a tick is made without the check that it has no job", "internal/sqlstore/schedules/tick.go", "return made[tick.UnixMicro()] })", "return false && made[0] })", "-run=^TestTicksOfManyStores$ ./store/sqlite"},
	{"the next stage of a job releases its dependents", "internal/sqlstore/lifecycle/apply.go", "\tAddHistory(t, was, &l, tr, c)\n\tif err", "\tif tr.Rule == \"F16\" && was.Dependents {\n\t\tover := l\n\t\tover.State = sojourn.Completed\n\t\tt.Events.Ended = append(t.Events.Ended, [2]*jobrow.Row{was, &over})\n\t}\n\tAddHistory(t, was, &l, tr, c)\n\tif err", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"the end of a parent counts twice", "internal/sqlstore/edge/end.go", "\t\trows[e.Child] = l\n", "\t\tif l != was && l.State == sojourn.Blocked {\n\t\t\tl, _ = resolve(t, l, rules.Event{Type: rules.EventParent}, \"\")\n\t\t}\n\t\trows[e.Child] = l\n", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"dependents are decided after the transaction", "internal/sqlstore/edge/end.go", "if len(edges) > MaxChildren {", "if len(edges) > 0 {", "-run=^TestTransactions$ ./store/sqlite"},
	{"a stage decides edges that its first read has not found", "internal/sqlstore/edge/end.go", "return !found[[2]sojourn.ID{e.Parent, e.Child}] || states[e.Parent] == stageOver && !e.OnStage", "return false", "-run=^TestConformance$/^two_stages ./store/postgres"},
	{"a cascade forgets what its call says about dependents", "internal/sqlstore/edge/end.go", "if carried && l.State.Final() {", "if carried && l.State.Final() && false {", "-run=^TestConformanceMemory$/^a_cancel_with_dependents ./store/sqlite"},
	{"a cascade goes on beyond the grants", "internal/sqlstore/edge/end.go", "&& through.Caller.Allows(", "&& (true || through.Caller.Allows(access.VerbOperate, \"\", \"\")) && (*access.Caller)(nil).Allows(", "-run=^TestConformanceMemory$/^cascades_stop ./store/sqlite"},
	{"the ends of FinishTx wait for a sweep", "internal/sqlstore/finish/finish.go", "\t\tfolds()\n", "\t\t_ = folds\n", "-run=^TestTransactions$/^finish_a_member ./store/sqlite"},
	{"next jobs are stored after the transaction", "internal/sqlstore/finish/finish.go", "\t\tif err := next.write(); err != nil {", "\t\tjobs := slices.Clone(o.Next)\n\t\tb.Events.After = append(b.Events.After, func() { go b.svc.enqueuer.Enqueue(context.Background(), jobs, false) })\n\t\tif err := error(nil); err != nil {", "-run=^TestTransactions$ ./store/sqlite"},
	{"dependencies of a replaced job are checked without those of its batch", "internal/sqlstore/edge/change.go", "for _, p := range added(sojourn.ID(id)) {", "for _, p := range added(0) {", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"a strict transaction decides the dependents that it sees", "internal/sqlstore/edge/end.go", "if c, ok := t.Conn.(sqldb.Isolated); !ok || !c.Isolated() {", "if c, ok := t.Conn.(sqldb.Isolated); !ok || !c.Isolated() || true {", "-run=^TestStrictIsolationOfDependents$ ./store/postgres"},
	{"two edges are added without waiting for each other", "internal/sqlstore/edge/change.go", "\tif !t.Concurrent() {\n\t\treturn nil\n\t}\n\t_, err := t.Write(qLockCycles)", "\tif !t.Concurrent() || true {\n\t\treturn nil\n\t}\n\t_, err := t.Write(qLockCycles)", "-run=^TestRaceDependencies$ ./store/postgres"},
	{"a removed dependency takes the edge of a child", "internal/sqlstore/edge/change.go", "\t\tif children[id] {", "\t\tif false && children[id] {", "-run=^TestConformanceMemory$/^a_dependency_on_an_own_child ./store/sqlite"},
	{"ticks without their unique index", "store/sqlite/migrations/0001_kernel.sql", "primary key (schedule, tick_us),", "primary key (schedule, tick_us, job),", "-run=^TestTicks ./store/sqlite"},
	{"a lost lock whose record stays", "store/postgres/internal/owner/owner.go", "for o.isLast(key) && o.eraseTo(key) != nil {", "for false && o.eraseTo(key) != nil {", "-run=^TestLockConnectionsCut ./store/postgres"},
	{"a verdict that is not checked again", "store/postgres/internal/owner/judge.go", "where id = $1 and lock_key = $2 and", "where id = $1 and", "-run=^TestVerdictIsVoid ./store/postgres"},
	{"ticks without their unique index on PostgreSQL", "store/postgres/migrations/0001_kernel.sql", "primary key (schedule, tick_us),", "primary key (schedule, tick_us, job),", "-run=^TestTicksAre ./store/postgres"},
	{"a tick moves its schedule twice", "internal/sqlstore/schedules/tick.go", "d.next = due.Next.UnixMicro()\n", "d.next, _ = d.nextAfter(due.Next.UnixMicro())\n", "-run=^TestTicks ./store/sqlite"},
	{"an edit makes a burst", "internal/sqlstore/schedules/set.go", "d.nextAfter(max(t.Now, was.lastTick))", "d.nextAfter(was.lastTick)", "-run=^TestConformanceMemory$ ./store/sqlite"},
	{"a handler's panic ends the worker", "worker/step.go", "if v := recover(); v != nil {\n\t\t\terr", "if v := any(nil); v != nil {\n\t\t\terr", "./worker"},
}

func main() {
	only := flag.String("only", "", "run the mutants whose name contains this")
	simulation := flag.Bool("sim", false, "run the simulation alone")
	verbose := flag.Bool("v", false, "print what the failing tests say")
	random := flag.Int("random", 0, "run only this many mutants, drawn at random")
	seed := flag.Uint64("seed", 0, "draw those that another run has drawn with this seed")
	dry := flag.Bool("dry", false, "only look whether each text to replace is there")
	flag.Parse()
	if err := os.Chdir("../.."); err != nil { // go run -C internal/tools stands in internal/tools
		fatal(err)
	}
	caught, planted := 0, 0
	for _, m := range draw(mutants, *random, *seed) {
		if !strings.Contains(m.name, *only) {
			continue
		}
		planted++
		if *dry {
			if _, err := find(m); err != nil {
				fmt.Println(m.name, err)
				continue
			}
			caught++
			continue
		}
		if *simulation {
			m.test = "-run=^TestSimulation$ " + store
		}
		began := time.Now()
		noticed, said := plant(m)
		how := fmt.Sprintf(" (%.0f s)", time.Since(began).Seconds())
		if strings.Contains(said, "panic: test timed out") { // it may hang for the bug, or because the machine is slow
			how += ", by the timeout"
		}
		if noticed {
			caught++
			fmt.Printf("caught    %s%s\n", m.name, how)
		} else {
			fmt.Printf("SURVIVED  %s (%s)\n", m.name, m.file)
		}
		if *verbose || !noticed && said != "" {
			fmt.Println(said)
		}
	}
	fmt.Printf("%d/%d %s\n", caught, planted, map[bool]string{true: "can be planted", false: "caught"}[*dry])
	if caught < planted {
		os.Exit(1)
	}
}

// find reads the file of a mutant, in which the text to replace must stand once.
func find(m mutant) (string, error) {
	text, err := os.ReadFile(m.file)
	if n := strings.Count(string(text), m.old); err == nil && n != 1 {
		err = fmt.Errorf("the text to replace stands %d times in %s", n, m.file)
	}
	return string(text), err
}

// plant runs the tests over one mutant and reports whether a test failed. A mutant that does not
// compile counts as a mistake in the list.
func plant(m mutant) (noticed bool, said string) {
	text, err := find(m)
	if err != nil {
		return false, err.Error()
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	source := strings.Replace(text, m.old, m.new, 1)
	if strings.Contains(m.new, "sojourn.") && !strings.Contains(source, `"github.com/sojourn-queue/sojourn"`) {
		source = strings.Replace(source, "import (", "import (\n\t\"github.com/sojourn-queue/sojourn\"", 1)
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		fatal(err)
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(source), 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, b, 0o600)
	}
	if err != nil {
		fatal(err)
	}
	args := []string{"test", "-count=1", "-vet=off", "-short=" + strconv.FormatBool(!m.overPostgres()), "-failfast", "-timeout", "3m", "-overlay", overlay}
	args = append(args, strings.Fields(m.test)...)
	out, err := exec.Command("go", args...).CombinedOutput()
	if strings.Contains(string(out), "[build failed]") {
		return false, "does not compile:\n" + string(out)
	}
	return err != nil, string(out)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}
