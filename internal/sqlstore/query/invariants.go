package query

import (
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
)

// CheckCounts is the name of the check of the maintained numbers of jobs.
const CheckCounts = "counts-kept"

// CheckOverdue is the name of the check that fails in a store that no process has used for a while.
const CheckOverdue = "nothing-overdue"

// checkFields is the name of the check of the values of JSON that queues index.
const checkFields = "fields-indexed"

// check is an invariant as a query for its violations: an id and the problem. A check reads one
// snapshot, so a store in use shows no false violation.
type check struct {
	name string
	law  string // for the message
	over slicing
	q    string // "" for checkFields, which Go compares
}

// slicing divides a check into slices. A query with $1 and $2 covers the rows whose number is above
// $1 and up to $2; one by texts has two parameters for each end.
type slicing struct {
	end   string // query for the last key of the slice that begins after a key; no row if there are no more
	texts bool   // the key is a kind and a key
}

// byNumber divides a check by the numbers of a column.
func byNumber(table, column string) slicing {
	return slicing{end: "select " + column + " from " + table + " where " + column + " > $1 order by " + column + " limit $2"}
}

var (
	whole      = slicing{} // it reads small tables, or by an index
	byJob      = byNumber("sj_job", "id")
	byLive     = byNumber("sj_live", "id")
	byFinal    = byNumber("sj_final", "id")
	byResponse = byNumber("sj_response", "seq")
	byPast     = byNumber("sj_key_past", "job")
	byHistory  = byNumber("sj_history", "job")
	byLog      = byNumber("sj_log", "job")
	byData     = byNumber("sj_data", "job")
	byDetail   = byNumber("sj_error_detail", "job")
	byAsked    = byNumber("sj_ask", "job")
	bySize     = byNumber("sj_checkpoint", "job")
	byArchived = byNumber("sj_archived", "job")
	byEdge     = byNumber("sj_edge", "child")
	byChild    = byNumber("sj_child", "parent")
	byWorkflow = byNumber("sj_workflow", "id")
	byTagged   = byNumber("sj_tag", "job")
	byValue    = byNumber("sj_field", "job")
	byMember   = byNumber("sj_member", "job")
	byKey      = slicing{"select kind, key from sj_key where (kind, key) > ($1, $2) order by kind, key limit $3", true}
)

// historyOf is the history of the jobs of a slice.
const historyOf = `(select job, ` + jobview.HistoryColumns + ` from sj_history where $1 < job and job <= $2
	union all select id, ` + jobview.LastColumns + ` from sj_final where $1 < id and id <= $2 and outcome <> '')`

// checks are the invariants of docs/guarantees.md that a query can check. States: 1 blocked, 2
// scheduled, 3 ready, 4 running, 5 awaiting, 6 errored, 7 completed, 8 failed, 9 cancelled.
// Purposes: 1 start, 2 resume, 3 decide, 4 poll. A last parameter, the time one minute ago, allows
// for the sweep's lag.
var checks = []check{
	{"job-in-one-place", "every job is either live or final", byJob,
		`select j.id, 'has ' || (select count(*) from sj_live l where l.id = j.id) || ' live and ' || (select count(*) from sj_final f where f.id = j.id) || ' final rows'
		from sj_job j where $1 < j.id and j.id <= $2 and (select count(*) from sj_live l where l.id = j.id) + (select count(*) from sj_final f where f.id = j.id) <> 1`},
	{"live-has-job", "a live row has a job", byLive,
		`select l.id, 'has no job' from sj_live l where $1 < l.id and l.id <= $2 and not exists (select 1 from sj_job j where j.id = l.id)`},
	{"final-has-job", "a final row has a job", byFinal,
		`select f.id, 'has no job' from sj_final f where $1 < f.id and f.id <= $2 and not exists (select 1 from sj_job j where j.id = f.id)`},
	{"tags-listed", "the rows of a job's tags are the tags in its list", byJob,
		`select j.id, 'has the tags ' || j.tags || ' and ' || count(g.tag) || ' rows of them' from sj_job j left join sj_tag g on g.job = j.id
		where $1 < j.id and j.id <= $2 and (j.tags <> '' or g.tag is not null) group by j.id, j.tags
		having 2 * count(g.tag) <> length(j.tags) - length(replace(j.tags, '"', '')) or count(case when j.tags like '%"' || replace(g.tag, '_', '!_') || '"%' escape '!' then 1 end) <> count(g.tag)`},
	{"tag-has-job", "a tag belongs to a job", byTagged, `select g.job, 'has the tag ' || g.tag || ' and no job' from sj_tag g where $1 < g.job and g.job <= $2 and not exists (select 1 from sj_job j where j.id = g.job)`},
	{checkFields, "the index of a queue has the values of its jobs' JSON", byJob, ""},
	{"field-has-job", "an indexed value belongs to a job", byValue, `select d.job, 'is indexed by ' || d.path || ' and is no job' from sj_field d
		where $1 < d.job and d.job <= $2 and not exists (select 1 from sj_job j where j.id = d.job)`},
	{"live-state", "the table of live jobs contains live states only", byLive,
		`select id, 'live with state ' || state from sj_live where $1 < id and id <= $2 and state not between 1 and 6`},
	{"final-state", "the table of final jobs contains completed, failed and cancelled jobs only", byFinal,
		`select id, 'final with state ' || state from sj_final where $1 < id and id <= $2 and state not between 7 and 9`},
	{"lease-iff-running", "a job has a lease, with purpose and worker, if and only if it is running", byLive,
		`select id, 'state ' || state || ', purpose ' || purpose || ', lease until ' || lease_until_us from sj_live
		where $1 < id and id <= $2 and ((state = 4) <> (purpose > 0) or (state = 4) <> (lease_until_us > 0) or state = 4 and (worker = '' or epoch < 1))`},
	{"held-iff-in-flight", "a job holds its weight if and only if it is running (not deciding), awaiting or resumed", byLive,
		`select id, 'holds ' || held || ' of ' || weight || ' in state ' || state from sj_live where $1 < id and id <= $2 and held <> case
		when state = 4 and purpose <> 3 or state = 5 or state = 3 and resumed = 1 then weight else 0 end`},
	{"resumed-is-ready", "a resumed job is ready and has taken a response", byLive,
		`select id, 'resumed in state ' || state || ' with ' || in_hand || ' in hand' from sj_live where $1 < id and id <= $2 and resumed = 1 and (state <> 3 or in_hand = 0)`},
	{"wakes-up", "every job that is not ready and does not wait for dependencies has a wake-up time", byLive,
		`select id, 'state ' || state || ' never wakes' from sj_live where $1 < id and id <= $2 and state <> 3 and (state <> 1 or attempt_open = 1) and wake_at_us = 9223372036854775807`},
	{"wakes-in-time", "wake_at is not later than any clock of the job", byLive,
		`select id, 'wakes at ' || wake_at_us || ', after its clock' from sj_live where $1 < id and id <= $2
		and (state = 2 and wake_at_us > run_at_us or state = 4 and wake_at_us > lease_until_us or state = 5 and (wake_at_us > timeout_at_us
		or beat_until_us > 0 and wake_at_us > beat_until_us)
		or state = 1 and attempt_open = 1 and wake_at_us > timeout_at_us or state in (1, 5) and wait_until_us > 0 and wake_at_us > wait_until_us
		or state = 6 and wake_at_us > decide_by_us or state <> 4 and deadline_us > 0 and wake_at_us > deadline_us)`},
	{CheckOverdue, "an overdue job is handled within a minute, if any process runs", whole,
		`select id, 'state ' || state || ' overdue since ' || wake_at_us from sj_live where wake_at_us <= $1 order by wake_at_us`},
	{"key-of-live-job", "a live job holds its key", byLive,
		`select l.id, 'does not hold its key' from sj_live l where $1 < l.id and l.id <= $2 and l.key <> '' and not exists
		(select 1 from sj_key k where k.kind = l.kind and k.key = l.key and k.job = l.id and k.live = 1)`},
	{"key-has-live-job", "a live key belongs to a live job of its kind", byKey,
		`select k.job, 'key ' || k.key || ' is held by a job that is not live' from sj_key k where (k.kind, k.key) > ($1, $2) and (k.kind, k.key) <= ($3, $4) and k.live = 1 and not exists
		(select 1 from sj_live l where l.id = k.job and l.kind = k.kind)`},
	{"past-key-holder-final", "an earlier owner of a key is final, and the key now refers to another job", byPast,
		`select p.job, 'is remembered for the key ' || p.key from sj_key_past p where $1 < p.job and p.job <= $2 and (not exists (select 1 from sj_final f where f.id = p.job)
		or not exists (select 1 from sj_key k where k.kind = p.kind and k.key = p.key and k.job <> p.job))`},
	{"one-live-job-per-key", "no two live jobs of a kind have the same key", byLive,
		`select l.id, 'shares the key ' || l.key || ' with job ' || o.id from sj_live l join sj_key k on k.kind = l.kind and k.key = l.key
		join sj_live o on o.id = k.job where $1 < l.id and l.id <= $2 and l.key <> '' and k.job <> l.id and o.kind = l.kind and o.key = l.key`},
	{"counters", "failures and crashes do not exceed the attempts and are not negative", byLive,
		`select id, 'attempt ' || attempt || ', failures ' || failures || ', crashes ' || crashes || ', epoch ' || epoch from sj_live
		where $1 < id and id <= $2 and (attempt < 0 or failures < 0 or crashes < 0 or generation < 1 or epoch < attempt or failures > attempt or attempt_open = 1 and attempt = 0)`},
	{"attempt-open", "an attempt is open while its handler runs, it awaits, or it is resumed", byLive,
		`select id, 'state ' || state || ' with the attempt closed' from sj_live where $1 < id and id <= $2 and attempt_open = 0 and (state = 4 and purpose <> 3 or state = 5 or resumed = 1)`},
	{"kept-count", "the job's row has the number of its attached responses", byLive,
		`select l.id, 'counts ' || l.kept || ' kept responses, has ' || (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2) from sj_live l
		where $1 < l.id and l.id <= $2 and l.kept <> (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2)`},
	{"in-hand-count", "the job's row has the number of its taken responses", byLive,
		`select l.id, 'counts ' || l.in_hand || ' in hand, has ' || (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.in_hand = 1) from sj_live l
		where $1 < l.id and l.id <= $2 and l.in_hand <> (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.in_hand = 1)`},
	{"in-hand-applied", "a taken response is applied, and its job is live", byResponse,
		`select r.job, 'response ' || r.seq || ' is in hand with outcome ' || r.outcome from sj_response r where $1 < r.seq and r.seq <= $2 and r.in_hand = 1
		and (r.outcome <> 1 or not exists (select 1 from sj_live l where l.id = r.job))`},
	{"no-lost-wake-up", "no job awaits while an answer is attached to it", byLive,
		`select l.id, 'awaits with an answer kept' from sj_live l where $1 < l.id and l.id <= $2 and l.state = 5 and l.wait not like '%"mode":"all"%' and exists
		(select 1 from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2 and (r.key = l.key or r.key = '') and l.wait not like '%"keys"%')`},
	{"no-early-beside-await", "no job awaits while its answer is in the inbox", byLive,
		`select l.id, 'awaits while response ' || r.seq || ' lies in the inbox' from sj_live l join sj_response r on r.kind = l.kind and r.key = l.key
		and r.outcome = 2 and r.job = 0 where $1 < l.id and l.id <= $2 and l.state = 5 and l.key <> '' and l.wait not like '%"keys"%'`},
	{"kept-by-live", "only live jobs have attached responses", byResponse,
		`select r.job, 'response ' || r.seq || ' is kept by a job that is not live' from sj_response r where $1 < r.seq and r.seq <= $2 and r.outcome = 2 and r.job > 0
		and not exists (select 1 from sj_live l where l.id = r.job)`},
	{"response-outcome", "every response has exactly one outcome", byResponse,
		`select job, 'response ' || seq || ' has outcome ' || outcome from sj_response where $1 < seq and seq <= $2 and outcome not in (1, 2, 4, 5, 6, 7, 8, 9)`},
	{"early-expires", "an early response without a job has an expiry time", byResponse,
		`select seq, 'lies early for ever' from sj_response where $1 < seq and seq <= $2 and outcome = 2 and job = 0 and expires_us = 0`},
	{"message-of-response", "the message id of every response is stored", byResponse,
		`select r.seq, 'has no message id' from sj_response r where $1 < r.seq and r.seq <= $2 and r.received_us > $3 and not exists
		(select 1 from sj_message m where m.at_us = r.received_us and m.seq = r.seq)`},
	{"history-gapless", "history entries are numbered without gaps, except for those dropped between the first and the newest 100", byJob,
		`select h.job, 'has ' || count(*) || ' history rows, the last is ' || max(h.seq) from ` + historyOf + ` h group by h.job having min(h.seq) <> 1
		or count(*) <> case when max(h.seq) > 101 then 101 else max(h.seq) end or min(case when h.seq > 1 then h.seq end) < max(h.seq) - 99`},
	{"history-count-live", "the row of a live job has the number of its newest history entry", byLive,
		`select l.id, 'counts ' || l.history || ' history rows' from sj_live l where $1 < l.id and l.id <= $2 and l.history <> (select coalesce(max(h.seq), 0) from sj_history h where h.job = l.id)`},
	{"history-count-final", "the row of a final job has the number of its newest history entry", byFinal,
		`select f.id, 'counts ' || f.history || ' history rows' from sj_final f where $1 < f.id and f.id <= $2 and f.history <>
		(select coalesce(max(h.seq), 0) from sj_history h where h.job = f.id) + case when f.outcome = '' then 0 else 1 end`},
	{"one-end-per-lease", "each lease ended at most once", byJob,
		`select job, 'epoch ' || epoch || ' ended ' || count(*) || ' times' from ` + historyOf + ` h where epoch > 0 group by job, epoch having count(*) > 1`},
	{"no-overlap", "two steps of a job never overlap", byJob,
		`select job, 'epoch ' || epoch || ' began before the step before it ended' from (select job, epoch, began_us,
		lag(ended_us) over (partition by job order by epoch) as before_us from ` + historyOf + ` w where epoch > 0) h where began_us < before_us`},
	{"epoch-known", "no history entry has a higher epoch than its job", byJob,
		`select h.job, 'has history of epoch ' || max(h.epoch) from ` + historyOf + ` h left join sj_live l on l.id = h.job left join sj_final f on f.id = h.job
		group by h.job, coalesce(l.epoch, f.epoch) having max(h.epoch) > coalesce(l.epoch, f.epoch)`},
	{"blocked-counts", "a job is blocked if and only if it has open dependencies, and its row has their number", byLive,
		`select l.id, 'state ' || l.state || ' counts ' || l.waits_for || ' open dependencies, has ' || (select count(*) from sj_edge e where e.child = l.id and e.open = 1) from sj_live l
		where $1 < l.id and l.id <= $2 and ((l.state = 1) <> (l.waits_for > 0) or l.waits_for <> (select count(*) from sj_edge e where e.child = l.id and e.open = 1))`},
	{"edge-ends", "an open dependency has a live child, and a parent that is live and knows of it, or failed or was cancelled, or is in the outbox", byEdge,
		`select e.child, 'depends on job ' || e.parent || ', which will not release it' from sj_edge e where $1 < e.child and e.child <= $2 and e.open = 1
		and (not exists (select 1 from sj_live l where l.id = e.child) or not exists (select 1 from sj_live p where p.id = e.parent and p.dependents = 1)
		and not exists (select 1 from sj_ending o where o.job = e.parent)
		and not exists (select 1 from sj_final f where f.id = e.parent and f.state <> 7 and e.on_failure = 0))`},
	{"edge-has-job", "a dependency goes with its job", byEdge,
		`select e.child, 'has dependencies and no row' from sj_edge e where $1 < e.child and e.child <= $2 and not exists (select 1 from sj_job j where j.id = e.child)`},
	{"child-has-parent", "the names of awaited children go with the job that has stored them", byChild,
		`select c.parent, 'has the child ' || c.child || ' and no row' from sj_child c where $1 < c.parent and c.parent <= $2 and not exists (select 1 from sj_job j where j.id = c.parent)`},
	{"queue-exists", "the queue of every live job exists", byLive,
		`select l.id, 'stands in queue ' || l.queue || ', which does not exist' from sj_live l
		where $1 < l.id and l.id <= $2 and not exists (select 1 from sj_queue q where q.name = l.queue)`},
	{"id-was-leased", "every job id was allocated by the store", byJob,
		`select j.id, 'was never given out' from sj_job j where $1 < j.id and j.id <= $2 and j.id >= coalesce((select cast(value as bigint) from sj_meta where name = 'next_id'), 1)`},
	{"limit-kept", "the weight in flight is within the queue's limit, except for a single job, and for weight in flight since before the limit was lowered", whole,
		`select q.seq, 'queue ' || q.name || ' has ' || f.held || ' in flight, allowed are ' || q.max_weight from sj_queue q join
		(select queue, sum(held) as held, count(*) as jobs from sj_live where held > 0 and lane <> '' group by queue) f on f.queue = q.name
		where q.max_weight > 0 and q.reshape < 0 and f.held > q.max_weight and f.jobs > 1`},
	{"flight-counted", "in a queue with in-flight counters, every in-flight job is in the in-flight index", byLive,
		`select l.id, 'holds ' || l.held || ' uncounted' from sj_live l join sj_queue q on q.name = l.queue
		where $1 < l.id and l.id <= $2 and q.counted = 1 and q.reshape < 0 and l.held > 0 and l.lane = ''`},
	{"flight-summed", "the in-flight counters equal the sum of the weights that the jobs hold", whole,
		`select q.seq, 'queue ' || q.name || ' sums ' || coalesce(f.held, 0) || ' in lane ' || f.lane || ', its jobs hold ' || coalesce(j.held, 0) from
		(select queue, lane, sum(held) as held from (select queue, lane, held from sj_flight union all select queue, lane, held from sj_landed) x
		group by queue, lane) f join sj_queue q on q.name = f.queue left join
		(select queue, lane, sum(held) as held from sj_live where lane <> '' and held > 0 group by queue, lane) j on j.queue = f.queue and j.lane = f.lane
		where f.held <> coalesce(j.held, 0)`},
	{"flight-known", "every job that holds weight has an in-flight counter", byLive,
		`select l.id, 'holds ' || l.held || ' in lane ' || l.lane || ', which the ledger does not know' from sj_live l where $1 < l.id and l.id <= $2 and l.lane <> '' and l.held > 0
		and not exists (select 1 from sj_flight f where f.queue = l.queue and f.lane = l.lane)
		and not exists (select 1 from sj_landed f where f.queue = l.queue and f.lane = l.lane)`},
	{"lane-of-job", "a waiting job is filed under its group", byLive,
		`select l.id, 'stands in lane ' || l.lane from sj_live l join sj_job j on j.id = l.id join sj_queue q on q.name = l.queue
		where $1 < l.id and l.id <= $2 and q.reshape < 0 and l.state in (1, 2, 3, 6) and l.resumed = 0 and l.lane <> case when q.counted = 0 then '' when l.weight = 0 then '0'
		when q.grouped = 1 then ':' || j.grp else '-' end`},
	{CheckCounts, "the maintained numbers of jobs are those of a recount", whole, counters.Check},
	{"token-of-server", "an access token has the hash of a secret and an expiry time", whole,
		`select 0, 'token ' || id || ' has a hash of ' || length(hash) || ' bytes' from sj_access where length(hash) <> 32 or expires_us <= 0`},
	{"schedule-has-tick", "a schedule that is not paused and has not ended is due at its next tick, or later while something holds it back", whole,
		`select last_job, 'of schedule ' || name || ', which is due at ' || due_us || ', and its next tick is at ' || next_us from sj_schedule where due_us < next_us
		or paused = 0 and next_us > 0 and due_us = 9223372036854775807 or next_us = 0 and end_us = 0 or (paused = 1 or next_us = 0) and due_us < 9223372036854775807`},
	{"tick-has-job", "a tick has a job", whole,
		`select k.job, 'of the tick of schedule ' || k.schedule || ' at ' || k.tick_us || ' is not stored' from sj_tick k where not exists (select 1 from sj_job j where j.id = k.job)`},
	{"workflow-counts", "the counts of a workflow, with the ends that are not added up yet, are those of its members", byWorkflow,
		`select w.id, 'of workflow ' || w.name || ' does not count its members' from sj_workflow w where $1 < w.id and w.id <= $2 and w.state <> 10
		and w.total || ' ' || (w.completed + (select coalesce(sum(e.completed), 0) from sj_workflow_end e where e.workflow = w.id))
			|| ' ' || (w.failed + (select coalesce(sum(e.failed), 0) from sj_workflow_end e where e.workflow = w.id))
			|| ' ' || (w.cancelled + (select coalesce(sum(e.cancelled), 0) from sj_workflow_end e where e.workflow = w.id))
		<> (select count(*) || ' ' || coalesce(sum(case when coalesce(f.state, m.state) = 7 then 1 else 0 end), 0)
			|| ' ' || coalesce(sum(case when coalesce(f.state, m.state) = 8 then 1 else 0 end), 0)
			|| ' ' || coalesce(sum(case when coalesce(f.state, m.state) = 9 then 1 else 0 end), 0)
			from sj_member m left join sj_final f on f.id = m.job where m.workflow = w.id)`},
	{"workflow-over", "a workflow has ended if all its members have, and then its callback was enqueued, or is to be tried again", byWorkflow,
		`select w.id, 'of workflow ' || w.name || ' in state ' || w.state || ' is over without its end or its callback' from sj_workflow w where $1 < w.id and w.id <= $2
		and not exists (select 1 from sj_workflow_end e where e.workflow = w.id) and (w.state = 2 and w.doing = 0 and w.completed + w.failed + w.cancelled = w.total
		or w.state between 7 and 9 and (w.completed + w.failed + w.cancelled <> w.total or w.on_end <> '' and w.end_job = 0 and w.owed in (0, 2))
		or (w.owed > 0 or w.doing > 0) and w.due_us = 9223372036854775807)`},
	{"member-has-workflow", "a live member of a workflow stands in its list", byLive,
		`select l.id, 'is no member of its workflow ' || l.workflow from sj_live l where $1 < l.id and l.id <= $2 and l.workflow <> 0
		and not exists (select 1 from sj_member m where m.job = l.id and m.workflow = l.workflow)`},
	{"member-has-workflow", "a list of members goes with its workflow", byMember,
		`select m.job, 'is a member of workflow ' || m.workflow || ', which is not stored' from sj_member m where $1 < m.job and m.job <= $2
		and not exists (select 1 from sj_workflow w where w.id = m.workflow)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byHistory,
		`select x.job, 'has history and no job' from sj_history x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byLog,
		`select x.job, 'has log and no job' from sj_log x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byData,
		`select x.job, 'has data and no job' from sj_data x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byDetail,
		`select x.job, 'has the detail of an error and no job' from sj_error_detail x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byAsked,
		`select x.job, 'has a question and no job' from sj_ask x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", bySize,
		`select x.job, 'has the size of a checkpoint and no job' from sj_checkpoint x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
	{"rows-have-job", "every row of history, log and data belongs to a job", byArchived,
		`select x.job, 'is recorded by an archive, and is no job' from sj_archived x where $1 < x.job and x.job <= $2 and not exists (select 1 from sj_job j where j.id = x.job)`},
}
