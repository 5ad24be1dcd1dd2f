package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// maxFindings bounds what one check reports.
const maxFindings = 20

// checkTime bounds all checks together.
const checkTime = 10 * time.Minute

// check is an invariant as a query whose rows break it: an id and what is wrong with it.
type check struct {
	name string
	law  string
	q    string
}

// checks are the invariants of docs/guarantees.md that a query can see. States: 1 blocked, 2 scheduled, 3 ready, 4 running, 5 awaiting, 6 errored,
// 7 completed, 8 failed, 9 cancelled. Purposes: 1 start, 2 resume, 3 decide, 4 poll. The sweep's lag is allowed for by $1, the time one
// minute ago.
var checks = []check{
	{"job-in-one-place", "every job is either live or final",
		`select j.id, 'has ' || (select count(*) from sj_live l where l.id = j.id) || ' live and ' || (select count(*) from sj_final f where f.id = j.id) || ' final rows'
		from sj_job j where (select count(*) from sj_live l where l.id = j.id) + (select count(*) from sj_final f where f.id = j.id) <> 1`},
	{"live-has-job", "a live row has a job", `select l.id, 'has no job' from sj_live l where not exists (select 1 from sj_job j where j.id = l.id)`},
	{"final-has-job", "a final row has a job", `select f.id, 'has no job' from sj_final f where not exists (select 1 from sj_job j where j.id = f.id)`},
	{"live-state", "the hot table holds live jobs only", `select id, 'live with state ' || state from sj_live where state not between 1 and 6`},
	{"final-state", "finished jobs are completed, failed or cancelled", `select id, 'final with state ' || state from sj_final where state not between 7 and 9`},
	{"lease-iff-running", "a lease, with its purpose and worker, stands exactly while running",
		`select id, 'state ' || state || ', purpose ' || purpose || ', lease until ' || lease_until_us from sj_live
		where (state = 4) <> (purpose > 0) or (state = 4) <> (lease_until_us > 0) or state = 4 and (worker = '' or epoch < 1)`},
	{"held-iff-in-flight", "weight is held exactly while running (not deciding), awaiting or resumed",
		`select id, 'holds ' || held || ' of ' || weight || ' in state ' || state from sj_live where held <> case
		when state = 4 and purpose <> 3 or state = 5 or state = 3 and resumed = 1 then weight else 0 end`},
	{"resumed-is-ready", "only ready jobs are resumed, and they have an answer in hand",
		`select id, 'resumed in state ' || state || ' with ' || in_hand || ' in hand' from sj_live where resumed = 1 and (state <> 3 or in_hand = 0)`},
	{"wakes-up", "every job that is not ready has a time at which it is looked at",
		`select id, 'state ' || state || ' never wakes' from sj_live where state <> 3 and state <> 1 and wake_at_us = 9223372036854775807`},
	{"wakes-in-time", "wake_at is not after any clock of the job",
		`select id, 'wakes at ' || wake_at_us || ', after its clock' from sj_live where
		state = 2 and wake_at_us > run_at_us or state = 4 and wake_at_us > lease_until_us or state = 5 and (wake_at_us > timeout_at_us
		or wait_until_us > 0 and wake_at_us > wait_until_us or beat_until_us > 0 and wake_at_us > beat_until_us)
		or state = 6 and wake_at_us > decide_by_us or state <> 4 and deadline_us > 0 and wake_at_us > deadline_us`},
	{"nothing-overdue", "what is overdue is handled within a minute by any process that runs",
		`select id, 'state ' || state || ' overdue since ' || wake_at_us from sj_live where wake_at_us <= $1 order by wake_at_us`},
	{"key-of-live-job", "a live job holds its key",
		`select l.id, 'does not hold its key' from sj_live l where l.key <> '' and not exists
		(select 1 from sj_key k where k.kind = l.kind and k.key = l.key and k.job = l.id and k.live = 1)`},
	{"key-has-live-job", "a live key belongs to a live job of its kind",
		`select k.job, 'key ' || k.key || ' is held by a job that is not live' from sj_key k where k.live = 1 and not exists
		(select 1 from sj_live l where l.id = k.job and l.kind = k.kind)`},
	{"past-key-holder-final", "an earlier holder of a key is final, and another job stands for the key",
		`select p.job, 'is remembered for the key ' || p.key from sj_key_past p where not exists (select 1 from sj_final f where f.id = p.job)
		or not exists (select 1 from sj_key k where k.kind = p.kind and k.key = p.key and k.job <> p.job)`},
	{"one-live-job-per-key", "no two live jobs of a kind have one key",
		`select min(id), 'shares the key ' || key || ' with ' || (count(*) - 1) || ' others' from sj_live where key <> '' group by kind, key having count(*) > 1`},
	{"counters", "failures and crashes stay within the attempts and are not negative",
		`select id, 'attempt ' || attempt || ', failures ' || failures || ', crashes ' || crashes || ', epoch ' || epoch from sj_live
		where attempt < 0 or failures < 0 or crashes < 0 or generation < 1 or epoch < attempt or failures > attempt or attempt_open = 1 and attempt = 0`},
	{"attempt-open", "an attempt is open while running the handler, awaiting or resumed",
		`select id, 'state ' || state || ' with the attempt closed' from sj_live where attempt_open = 0 and (state = 4 and purpose <> 3 or state = 5 or resumed = 1)`},
	{"kept-count", "the row counts the responses that it keeps",
		`select l.id, 'counts ' || l.kept || ' kept responses, has ' || (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2) from sj_live l
		where l.kept <> (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2)`},
	{"in-hand-count", "the row counts the responses that it has in hand",
		`select l.id, 'counts ' || l.in_hand || ' in hand, has ' || (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.in_hand = 1) from sj_live l
		where l.in_hand <> (select count(*) from sj_response r where r.job = l.id and r.job > 0 and r.in_hand = 1)`},
	{"in-hand-applied", "a response in hand is applied, and its job is live",
		`select r.job, 'response ' || r.seq || ' is in hand with outcome ' || r.outcome from sj_response r where r.in_hand = 1
		and (r.outcome <> 1 or not exists (select 1 from sj_live l where l.id = r.job))`},
	{"no-lost-wake-up", "nobody awaits with an answer beside it",
		`select l.id, 'awaits with an answer kept' from sj_live l where l.state = 5 and l.wait not like '%"mode":"all"%' and exists
		(select 1 from sj_response r where r.job = l.id and r.job > 0 and r.outcome = 2 and (r.key = l.key or r.key = '') and l.wait not like '%"keys"%')`},
	{"no-early-beside-await", "nobody awaits with an answer in the inbox",
		`select l.id, 'awaits while response ' || r.seq || ' lies in the inbox' from sj_live l join sj_response r on r.kind = l.kind and r.key = l.key
		and r.outcome = 2 and r.job = 0 where l.state = 5 and l.key <> '' and l.wait not like '%"keys"%'`},
	{"kept-by-live", "only live jobs keep responses",
		`select r.job, 'response ' || r.seq || ' is kept by a job that is not live' from sj_response r where r.outcome = 2 and r.job > 0
		and not exists (select 1 from sj_live l where l.id = r.job)`},
	{"response-outcome", "every response has exactly one outcome", `select job, 'response ' || seq || ' has outcome ' || outcome from sj_response where outcome not in (1, 2, 4, 5, 6, 7, 8)`},
	{"early-expires", "an early response without a job has a time to live", `select seq, 'lies early for ever' from sj_response where outcome = 2 and job = 0 and expires_us = 0`},
	{"message-of-response", "every response is known by its message id",
		`select r.seq, 'has no message id' from sj_response r where r.received_us > $1 and not exists
		(select 1 from sj_message m where m.source = r.source and m.message_id = r.message_id)`},
	{"history-gapless", "history rows are numbered without gaps",
		`select h.job, 'has ' || count(*) || ' history rows, the last is ' || max(h.seq) from ` + wholeHistory + ` h group by h.job having count(*) <> max(h.seq) or min(h.seq) <> 1`},
	{"history-count-live", "the row knows its newest history row",
		`select l.id, 'counts ' || l.history || ' history rows' from sj_live l where l.history <> (select count(*) from sj_history h where h.job = l.id)`},
	{"history-count-final", "the final row knows its newest history row",
		`select f.id, 'counts ' || f.history || ' history rows' from sj_final f where f.history <>
		(select count(*) from sj_history h where h.job = f.id) + case when f.outcome = '' then 0 else 1 end`},
	{"one-end-per-lease", "a lease ended once",
		`select job, 'epoch ' || epoch || ' ended ' || count(*) || ' times' from ` + wholeHistory + ` h where epoch > 0 group by job, epoch having count(*) > 1`},
	{"no-overlap", "two steps of a job never overlap",
		`select job, 'epoch ' || epoch || ' began before the step before it ended' from (select job, epoch, began_us,
		lag(ended_us) over (partition by job order by epoch) as before_us from ` + wholeHistory + ` w where epoch > 0) h where began_us < before_us`},
	{"epoch-known", "no history is ahead of the epoch",
		`select h.job, 'has history of epoch ' || max(h.epoch) from ` + wholeHistory + ` h left join sj_live l on l.id = h.job left join sj_final f on f.id = h.job
		group by h.job, coalesce(l.epoch, f.epoch) having max(h.epoch) > coalesce(l.epoch, f.epoch)`},
	{"queue-exists", "the queue of every live job exists", `select l.id, 'stands in queue ' || l.queue || ', which does not exist' from sj_live l
		where not exists (select 1 from sj_queue q where q.name = l.queue)`},
	{"id-was-leased", "no job has an id that was not given out",
		`select j.id, 'was never given out' from sj_job j where j.id >= coalesce((select cast(value as bigint) from sj_meta where name = 'next_id'), 1)`},
	{"limit-kept", "the weight in flight is within the limit of its queue, but for one job alone and what was there before the limit was lowered",
		`select q.seq, 'queue ' || q.name || ' has ' || f.held || ' in flight, allowed are ' || q.max_weight from sj_queue q join
		(select queue, sum(held) as held, count(*) as jobs from sj_live where held > 0 group by queue) f on f.queue = q.name
		where q.max_weight > 0 and q.reshape < 0 and f.held > q.max_weight and f.jobs > 1`},
	{"flight-counted", "what is in flight in a queue that counts is in the index of what is in flight",
		`select l.id, 'holds ' || l.held || ' uncounted' from sj_live l join sj_queue q on q.name = l.queue
		where q.counted = 1 and q.reshape < 0 and l.held > 0 and l.lane = ''`},
	{"flight-summed", "the ledger of the weight in flight is what the jobs hold",
		`select q.seq, 'queue ' || q.name || ' sums ' || coalesce(f.held, 0) || ' in lane ' || f.lane || ', its jobs hold ' || coalesce(j.held, 0) from
		(select queue, lane, sum(held) as held from (select queue, lane, held from sj_flight union all select queue, lane, held from sj_landed) x
		group by queue, lane) f join sj_queue q on q.name = f.queue left join
		(select queue, lane, sum(held) as held from sj_live where lane <> '' and held > 0 group by queue, lane) j on j.queue = f.queue and j.lane = f.lane
		where f.held <> coalesce(j.held, 0)`},
	{"flight-known", "what a job holds stands in the ledger",
		`select l.id, 'holds ' || l.held || ' in lane ' || l.lane || ', which the ledger does not know' from sj_live l where l.lane <> '' and l.held > 0
		and not exists (select 1 from sj_flight f where f.queue = l.queue and f.lane = l.lane)
		and not exists (select 1 from sj_landed f where f.queue = l.queue and f.lane = l.lane)`},
	{"lane-of-job", "a waiting job stands in the line of its group",
		`select l.id, 'stands in lane ' || l.lane from sj_live l join sj_job j on j.id = l.id join sj_queue q on q.name = l.queue
		where q.reshape < 0 and l.state in (1, 2, 3, 6) and l.resumed = 0 and l.lane <> case when q.counted = 0 then '' when l.weight = 0 then '0'
		when q.grouped = 1 then ':' || j.grp else '-' end`},
	{"token-of-server", "a token has the hash of a secret, and an end",
		`select 0, 'token ' || id || ' has a hash of ' || length(hash) || ' bytes' from sj_access where length(hash) <> 32 or expires_us <= 0`},
	{"rows-have-job", "history, log and data belong to a job",
		`select x.job, 'has ' || x.what || ' and no job' from (select job, 'history' as what from sj_history union select job, 'log' from sj_log union
		select job, 'data' from sj_data) x where not exists (select 1 from sj_job j where j.id = x.job)`},
}

// Checks names the invariants; see sojourn.Checker.
func (s *Store) Checks() []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}

// Check looks at every invariant; see sojourn.Checker. It reads whole tables, each check in a snapshot of its own.
func (s *Store) Check(ctx context.Context) ([]sojourn.Violation, error) {
	if _, own := ctx.Deadline(); !own { // whole tables take longer than a reader is allowed by itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, checkTime)
		defer cancel()
	}
	var out []sojourn.Violation
	for _, c := range checks {
		var found []sojourn.Violation
		err := s.view(ctx, func(t *tx) error {
			found = nil
			args := []any{}
			if hasParameter(c.q) {
				args = append(args, t.now-60_000_000)
			}
			return t.query(c.q+fmt.Sprintf(" limit %d", maxFindings), func(r Row) error {
				found = append(found, sojourn.Violation{Check: c.name, Detail: fmt.Sprintf("%d %s (%s)", r.Int(0), r.Text(1), c.law)})
				return nil
			}, args...)
		})
		if err != nil {
			return out, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func hasParameter(q string) bool {
	for i := range len(q) - 1 {
		if q[i] == '$' && q[i+1] == '1' {
			return true
		}
	}
	return false
}
