// Package texts has long statements of PostgreSQL.
package texts

// StartAlike locks no more than it starts, and no row for which another transaction holds a lock.
// A job is as it was stored if it has no column that is not named in the second half; began and
// updated are the time of the transaction.
const StartAlike = `with door as (select 1 where cast(extract(epoch from clock_timestamp()) * 1000000 as bigint) between $1 and $2
		and not exists (select 1 from sj_live where wake_at_us <= $3 and wake_at_us < 9223372036854775807)
		and not exists (select 1 from sj_worker where worker = $4 and (drained <> 0 or $5::bigint > 0 and claim_no >= $5::bigint))
		and not exists (select 1 from sj_queue where name in (texts($6)) and paused + gated > 0)),
	picked as (select h.id from door cross join unnest($8::text[]) k(kind) cross join lateral (select id, r1, r2 from sj_live where queue = $7 and kind = k.kind and state = 3
		and (weight <= $9::bigint or run_at_us <= $24::bigint) order by r1, r2, id limit $10 for update skip locked) h order by h.r1, h.r2, h.id limit $10),
	started as (update sj_live l set state = 4, resumed = 0, claimed = 1, rested_us = 0, decide_by_us = 0, poll_at_us = 0, worker = $4, began_us = $3, updated_us = $3,
		timeout_at_us = ($13::bigint[])[array_position($12::text[], j.policy)], wake_at_us = ($14::bigint[])[array_position($12::text[], j.policy)],
		lease_until_us = $15, lease_us = $16, purpose = $17, epoch = $18, attempt = $19, attempt_open = $20, retry_handler = $21, held = $22, given = $23
		from picked p join sj_job j on j.id = any(array[p.id]) where l.id = any(array[p.id]) and j.policy = any($12::text[]) and l.weight = $11 and l.updated_us <= $3
		and l.resumed = 0 and l.purpose = 0 and l.lane = '' and l.wake_at_us = 9223372036854775807 and l.generation = 1 and l.epoch = 0 and l.worker = ''
		and l.lease_until_us = 0 and l.lease_us = 0 and l.began_us = 0 and l.attempt = 0 and l.attempt_open = 0 and l.failures = 0 and l.crashes = 0
		and l.claimed = 0 and l.retry_handler = 0 and l.held = 0 and l.kept = 0 and l.in_hand = 0 and l.given = 0 and l.no_poll = 0 and l.waits = 0 and l.stage = 0 and l.wait = ''
		and l.wait_until_us = 0 and l.beat_until_us = 0 and l.poll_at_us = 0 and l.timeout_at_us = 0 and l.rested_us = 0 and l.decide_by_us = 0
		and l.deadline_us = 0 and l.history = 0 and l.has_data = 0 and l.dependents = 0 and l.waits_for = 0 and l.children_done = 0 and l.workflow = 0 and l.born_us = j.created_us
		returning l.id, l.kind, l.key, l.priority, l.run_at_us, l.r1, l.r2, j.policy, j.grp, j.content_type, j.tags, j.meta, j.orig_run_at_us, j.created_us, j.origin, j.args)
	select (select count(*) from door), (select count(*) from picked), s.* from (select 1) one left join started s on true`

// Statements of events.
const (
	// OldestOpen is the lowest id of a transaction that may still commit.
	OldestOpen = `cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint)`
	// AddTransition is jobevent.TextAdd. The lookup of the event before keeps the order of the
	// events of a job: a transaction that has waited for the row of the job may have a lower id
	// than the one that it has waited for.
	AddTransition = `insert into sj_event (xid, id, job, at_us, from_state, state, generation, attempt, queue, kind, key, tags)
	select greatest(cast(cast(pg_current_xact_id() as text) as bigint), (select max(e.xid) from sj_event e where e.job = v.job)), nextval('sj_event_seq'),
	v.job, v.at, v.was, v.state, v.generation, v.attempt, v.queue, v.kind, v.key, coalesce((select j.tags from sj_job j where j.id = v.job), '')
	from (rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 text, $8 text, $9 text)) v(job, at, was, state, generation, attempt, queue, kind, key)
	where exists (select 1 from sj_follower)`
)
