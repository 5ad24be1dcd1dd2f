-- The tables of one instance, the same as on SQLite. sj_ stands for the instance's schema and prefix. Times are microseconds since 1970 by
-- the clock of this database; 0 means none. Bytes are never null: absent bytes are empty bytes. Names and keys compare by their bytes,
-- whatever the collation of the database.
--
-- Each check constraint protects an invariant of the engine: a write that would break it fails, and its transaction is rolled back.
-- (a | b) >= 0 holds if neither column is negative; (a | b) in (0, 1) holds if both columns are 0 or 1.
-- The server parses and plans these conditions for each statement, which takes 0.4 µs for each column and operator. So they are short here, and
-- SQLite, where they cost nothing that shows, has more of them.

-- Facts about the instance: instance (its name in idempotency keys), secret (of capability tokens), next_id,
-- clock (what all processes share about the clock: its mark, the sum of its steps, and since when and by how much leases may end too early).
create table sj_meta (
	name text collate "C" not null primary key,
	value text not null,
	constraint meta_name check (name <> '')
);

-- Blocks of ids leased to clients. owner is the id of the access token that leased the block, '' for
-- callers without one, and * for the server itself. A job may be inserted with an id for 15 minutes after its block was leased.
create table sj_block (
	first bigint not null primary key,
	size bigint not null,
	leased_us bigint not null,
	owner text not null,
	constraint block_ids check (first > 0 and size > 0)
);

-- settings and flow (what the gates remember from claim to claim) are JSON; paused, gated, counted, grouped and max_weight say of the settings
-- what every claim must know and what the doctor looks at. shape changes with whatever decides where jobs stand in line; then all live jobs of the queue are
-- looked at, in pieces, and reshape is the id up to which that is done (-1: all). max_weight is the weight that may be in flight: the limit,
-- or what was in flight when it was lowered; 0 = any. declared and operator are the layers that settings is made of: what a program has
-- declared, and what operators have set over it. revision counts the changes of settings. owner is the access token whose job created the queue, '' for any other way.
create table sj_queue (
	name text collate "C" not null primary key,
	seq bigint not null,
	paused bigint not null default 0,
	gated bigint not null default 0,
	counted bigint not null default 0,
	grouped bigint not null default 0,
	max_weight bigint not null default 0,
	shape bigint not null default 0,
	reshape bigint not null default -1,
	settings text not null default '',
	flow text not null default '',
	declared text not null default '',
	operator text not null default '',
	revision bigint not null default 1,
	owner text not null default '',
	constraint queue_flags check ((paused | gated | counted | grouped) in (0, 1)),
	constraint queue_counters check ((seq | max_weight | shape) >= 0)
);
create index ix_queue_seq on sj_queue (seq, name);
create index ix_queue_owner on sj_queue (owner) where owner <> '';

-- When the rate buckets of groups will be full again, in nanoseconds. A full bucket has no row.
create table sj_bucket (
	queue text collate "C" not null,
	lane text collate "C" not null,
	full_at_ns bigint not null,
	primary key (queue, lane),
	constraint bucket_full_at check (full_at_ns > 0)
);

-- What a job carries. Written once (operators may edit a job that is not running) and kept until the job is pruned, so that its id
-- conflicts here for as long as anybody may repeat the enqueue. digest identifies the content of its first enqueue. origin (JSON) says which tick of a schedule
-- has made it, '' for all other jobs.
create table sj_job (
	id bigint not null primary key,
	kind text collate "C" not null,
	key text collate "C" not null,
	grp text not null,
	content_type text not null,
	tags text not null,
	meta text not null,
	policy text not null,
	origin text not null,
	orig_run_at_us bigint not null,
	created_us bigint not null,
	digest bytea not null,
	args bytea not null,
	constraint job_id check (id > 0)
);

-- What changes while a job lives: narrow, because claims and finishes rewrite it, and the wide columns first, so that none is padded. worker is that
-- of the last claim, and epoch counts claims; a lease stands exactly while state = 4 (running).
create table sj_live (
	id bigint not null primary key,
	r1 bigint not null,
	r2 bigint not null,
	run_at_us bigint not null,
	wake_at_us bigint not null,
	epoch bigint not null,
	lease_until_us bigint not null default 0,
	lease_us bigint not null default 0,
	began_us bigint not null default 0,
	wait_until_us bigint not null default 0,
	beat_until_us bigint not null default 0,
	poll_at_us bigint not null default 0,
	timeout_at_us bigint not null default 0,
	rested_us bigint not null default 0,
	decide_by_us bigint not null default 0,
	workflow bigint not null default 0,
	deadline_us bigint not null,
	updated_us bigint not null,
	priority int not null,
	weight int not null,
	generation int not null,
	attempt int not null default 0,
	failures int not null default 0,
	crashes int not null default 0,
	waits int not null default 0,
	stage int not null default 0,
	waits_for int not null default 0,
	dependents int not null default 0,
	children_done int not null default 0,
	held int not null default 0,
	kept int not null default 0,
	in_hand int not null default 0,
	history int not null,
	state smallint not null,
	resumed smallint not null default 0,
	purpose smallint not null default 0,
	attempt_open smallint not null default 0,
	claimed smallint not null default 0,
	retry_handler smallint not null default 0,
	given smallint not null default 0,
	no_poll smallint not null default 0,
	has_data smallint not null,
	queue text collate "C" not null,
	kind text collate "C" not null,
	key text collate "C" not null,
	lane text collate "C" not null default '',
	worker text collate "C" not null,
	wait text not null default '',
	constraint live_state check (state between 1 and 6),
	constraint live_lease check ((state = 4) = (lease_until_us > 0)),
	constraint live_weight check (weight between 0 and 1000000),
	constraint live_budgets check (failures between 0 and attempt and crashes >= 0)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);
-- Each step of a job leaves two or three dead rows here, so this table is vacuumed ten times as often as others.

-- The claim index: one probe per kind a worker knows, so that jobs of kinds it does not know never stand in its way. Only ready
-- jobs are in it: a million scheduled ones in front cost a claim nothing.
create index ix_live_ready on sj_live (queue, kind, r1, r2, id) where state = 3;
create index ix_live_errored on sj_live (queue, kind, r1, r2, id) where state = 6;
-- Waiting jobs that are polled. Only waits of kinds with a poll function have a poll_at_us.
create index ix_live_poll on sj_live (queue, kind, poll_at_us, id) where poll_at_us > 0;
-- The line of each group, in queues where groups take turns, and of jobs without weight: see jobrow/rank.go. Jobs of queues without gates have no lane
-- and are in neither of these two.
create index ix_live_lane on sj_live (queue, kind, lane, r1, r2, id) where state = 3 and lane <> '' and lane <> '-';
-- What is in flight in these queues.
create index ix_live_flight on sj_live (queue, lane, held) where held > 0 and lane <> '';
-- The whole input of the sweep.
create index ix_live_wake on sj_live (wake_at_us, id) where wake_at_us < 9223372036854775807;

-- The weight in flight by lane, in queues that count it: the sum of both tables. Whoever changes it only adds a row to sj_landed, so nobody waits
-- for anybody; claims, which have the queue's lock, add these up into sj_flight.
create table sj_flight (
	queue text collate "C" not null,
	lane text collate "C" not null,
	held bigint not null,
	primary key (queue, lane)
);
create table sj_landed (
	queue text collate "C" not null,
	lane text collate "C" not null,
	held bigint not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index ix_landed_queue on sj_landed (queue);

-- Numbers of jobs by queue, kind and state, and the weight that they hold: the sum of both tables. ready is without the resumed ones. Where one transaction
-- writes at a time it changes sj_count. Elsewhere transactions only add rows to sj_count_change, so nobody waits for anybody, and a fold adds these up. They
-- decide no limit.
create table sj_count (
	queue text collate "C" not null, kind text collate "C" not null,
	blocked bigint not null, scheduled bigint not null, ready bigint not null, resumed bigint not null, running bigint not null, awaiting bigint not null, errored bigint not null,
	completed bigint not null, failed bigint not null, cancelled bigint not null, held bigint not null,
	primary key (queue, kind)
) with (fillfactor = 50);
create table sj_count_change (
	queue text collate "C" not null, kind text collate "C" not null,
	blocked bigint not null, scheduled bigint not null, ready bigint not null, resumed bigint not null, running bigint not null, awaiting bigint not null, errored bigint not null,
	completed bigint not null, failed bigint not null, cancelled bigint not null, held bigint not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Keys. A live job holds its own key and those it awaits. The row of a final job stays (live = 0) until the job is pruned or another
-- takes the key (own = 1: the key of its enqueue): it says that a response came late, and until held_until_us (KeepKey) it still counts as taken.
create table sj_key (
	kind text collate "C" not null,
	key text collate "C" not null,
	job bigint not null,
	own bigint not null,
	live bigint not null,
	held_until_us bigint not null,
	primary key (kind, key),
	constraint key_job check (job > 0)
);
create index ix_key_awaited on sj_key (job) where own = 0;

-- Earlier final jobs of a key that are still stored: written only where a key is used again. When the newest of them is pruned, the one before
-- it stands for the key.
create table sj_key_past (
	kind text collate "C" not null,
	key text collate "C" not null,
	job bigint not null,
	primary key (kind, key, job),
	constraint key_past_job check (job > 0)
);
create index ix_key_past_job on sj_key_past (job);

-- Who waits for whom. open = 1 while the dependency keeps its child blocked; a resolved one stays, so that the child can read its parents' results, and
-- goes with the child. on_failure: 0 wait, 1 cancel, 2 fail, 3 ignore, 4 ignore because the parent is one of the jobs that the child has stored and
-- awaits (sj_child). on_stage = 1: the end of the parent's stage is enough.
create table sj_edge (
	child bigint not null,
	parent bigint not null,
	on_failure int not null,
	on_stage int not null,
	open int not null,
	primary key (child, parent),
	constraint edge_ends check (child > 0 and parent > 0 and child <> parent),
	constraint edge_on_failure check (on_failure between 0 and 4),
	constraint edge_flags check ((on_stage | open) in (0, 1))
);
create index ix_edge_parent on sj_edge (parent, open, child);
create index ix_edge_stage on sj_edge (parent, child) where on_stage = 1 and open = 1;

-- The jobs that a job has stored and awaits. A step that is repeated finds here what it has stored before: the name identifies the child
-- within the generation and stage of its parent. A row goes with the parent; the child may have gone before.
create table sj_child (
	parent bigint not null,
	generation int not null,
	stage int not null,
	name text collate "C" not null,
	child bigint not null,
	primary key (parent, generation, stage, name),
	constraint child_ids check (parent > 0 and child > 0 and parent <> child),
	constraint child_name check (name <> ''),
	constraint child_counters check ((generation | stage) >= 0)
);
create index ix_child_job on sj_child (child);

-- Ended jobs whose dependents are not all decided: those after the child done. Any sweep goes on with them. state = 0: only a stage has ended, and
-- the dependents are those with on_stage = 1. It is worked on before the end of the same job. dependents: what becomes of those that would wait for
-- ever (1 cancel, 2 release), by a cancel or purge of the token owner ('' = of the application).
create table sj_ending (
	job bigint not null,
	state int not null,
	done bigint not null,
	dependents int not null default 0, owner text not null default '',
	primary key (job, state),
	constraint ending_state check (state = 0 or state between 7 and 9),
	constraint ending_dependents check (dependents between 0 and 2)
);

-- Checkpoint and progress, apart because few jobs have them.
create table sj_data (
	job bigint not null primary key,
	checkpoint bytea not null,
	progress text not null
);

-- Final jobs. Nothing here changes; redrive moves the row back, retention deletes it. The last row of the history stands here as well, and moves to
-- sj_history with a redrive: step_epoch is the epoch of the step that ended the job, 0 if none did; outcome is '' if the history has no row.
create table sj_final (
	id bigint not null primary key,
	run_at_us bigint not null,
	epoch bigint not null,
	finished_us bigint not null,
	failure bigint not null default 0,
	step_epoch bigint not null,
	began_us bigint not null,
	priority int not null,
	weight int not null,
	generation int not null,
	attempt int not null,
	failures int not null,
	crashes int not null,
	stage int not null,
	history int not null,
	state smallint not null,
	has_data smallint not null,
	purpose smallint not null,
	queue text collate "C" not null,
	kind text collate "C" not null,
	key text collate "C" not null,
	worker text collate "C" not null,
	outcome text not null,
	by_whom text not null,
	reason text not null,
	result_type text not null,
	error bytea not null,
	result bytea not null,
	constraint final_state check (state between 7 and 9),
	constraint final_weight check (weight between 0 and 1000000),
	constraint final_budgets check (failures between 0 and attempt and crashes >= 0)
);
create index ix_final_retention on sj_final (queue, state, finished_us, id);
create index ix_final_failure on sj_final (failure, id) where failure <> 0;

-- One row a step that ended (epoch > 0) or a change without a step, numbered per job without gaps. The last one of a final job stands in sj_final.
create table sj_history (
	job bigint not null, seq bigint not null, epoch bigint not null, began_us bigint not null, ended_us bigint not null, failure bigint not null default 0, generation int not null, stage int not null, attempt int not null,
	purpose smallint not null, state smallint not null, worker text collate "C" not null, outcome text not null, reason text not null, error bytea not null, by_whom text not null,
	primary key (job, seq),
	constraint history_state check (state between 1 and 9)
);
create index ix_history_failure on sj_history (failure, job) where failure <> 0;

create table sj_log (
	job bigint not null, seq bigint not null, at_us bigint not null, attempt bigint not null, level text not null, text text not null, dropped bigint not null,
	primary key (job, seq),
	constraint log_seq check (seq > 0),
	constraint log_counters check ((attempt | dropped) >= 0)
);

-- Numbers the responses. A counter in a row would be locked by each response until its commit, by all nodes in turn.
create sequence sj_response_seq;

-- Every response that ever came, in order of arrival. outcome: 1 applied, 2 early, 4 late, 5 stale, 6 unmatched, 7 parked, 8 discarded, 9 conflict. An early one
-- with a job is kept by it; an applied one with in_hand = 1 is Job.Response. replay is the response that by_whom has made of it. wait is the wait
-- that the capability names by which it came, -1 without one.
create table sj_response (
	seq bigint not null primary key, source text collate "C" not null, message_id text collate "C" not null, kind text collate "C" not null,
	key text collate "C" not null, job bigint not null, generation bigint not null, outcome bigint not null, in_hand bigint not null,
	failed bigint not null, progress bigint not null, wait bigint not null default -1, reason text not null, error bytea not null,
	content_type text not null, received_us bigint not null, expires_us bigint not null, duplicates bigint not null, replay bigint not null default 0,
	by_whom text not null default '', body bytea not null,
	constraint response_outcome check (outcome between 1 and 9 and outcome <> 3),
	constraint response_in_hand check (in_hand = 0 or outcome = 1 and job > 0)
);
create index ix_response_job on sj_response (job, seq) where job > 0;
create index ix_response_early on sj_response (kind, key, seq) where outcome = 2 and job = 0;
create index ix_response_expiry on sj_response (expires_us, seq) where expires_us > 0;
-- What lies in the inbox, for people. A response that a job takes at once is in none of these.
create index ix_response_lying on sj_response (outcome, seq) where outcome > 2;
create index ix_response_lying_key on sj_response (kind, key, seq) where outcome > 2;

-- Message ids outlive the responses. scope says whose ids they are: the name of a source (token:ID or token:ID/NAME for an access token), link: with
-- a capability, key: with a source and an address, or conflict: before one of these for responses with the outcome conflict. digest is that of
-- address and content.
create table sj_message (
	scope text collate "C" not null,
	message_id text collate "C" not null,
	seq bigint not null,
	at_us bigint not null,
	digest bytea not null,
	primary key (scope, message_id)
);
create index ix_message_at on sj_message (at_us);

-- The last claim of each worker, so that a repeated claim is answered with the same jobs; what it is called and asks for (JSON); and whether it gets no more.
create table sj_worker (
	worker text collate "C" not null primary key, claim_no bigint not null, claimed text not null, asks text not null, seen_us bigint not null,
	drained bigint not null default 0,
	constraint worker_claim_no check (claim_no >= 0),
	constraint worker_flags check (drained in (0, 1))
);
create index ix_worker_seen on sj_worker (seen_us);

-- Recurring definitions. definition is JSON: the times and the job that is the template; declared is what a program has declared. next_us is the first tick that was
-- not handled, 0 if none is to come. due_us is when it is looked at: next_us, or later while something holds it back, and the largest int64 while it is paused
-- or none is to come. owner is the access token with whose grants it runs, end_us the end of the definition.
create table sj_schedule (
	name text collate "C" not null primary key,
	queue text collate "C" not null,
	kind text collate "C" not null,
	owner text not null,
	definition text not null,
	declared text not null,
	problem text not null,
	next_us bigint not null,
	due_us bigint not null,
	end_us bigint not null,
	last_tick_us bigint not null,
	last_job bigint not null,
	runs bigint not null,
	skipped bigint not null,
	revision bigint not null,
	paused bigint not null,
	created_us bigint not null,
	updated_us bigint not null,
	constraint schedule_name check (name <> ''),
	constraint schedule_flags check (paused in (0, 1)),
	constraint schedule_due check (due_us >= next_us),
	constraint schedule_counters check ((next_us | last_job | runs | skipped | revision) >= 0)
);
create index ix_schedule_due on sj_schedule (due_us, name) where due_us < 9223372036854775807;
create index ix_schedule_queue on sj_schedule (queue);

-- The job of each tick. One tick makes one job: the primary key holds although ticks are handled by any process.
create table sj_tick (
	schedule text collate "C" not null,
	tick_us bigint not null,
	job bigint not null,
	primary key (schedule, tick_us),
	constraint tick_job check (job > 0)
);
create index ix_tick_job on sj_tick (job);

-- Named groups of jobs. state: 1 open, 2 running, 7 completed, 8 failed, 9 cancelled, 10 being removed. completed, failed and cancelled count members, without
-- the rows of sj_workflow_end. digest is that of the call that has started it; on_end and on_failure are templates of jobs (JSON), and owner is the access token
-- with whose grants they are enqueued. owed: callbacks that are due, 1 on_end + 2 on_failure. fired is the generation of the last first failure. doing: 1 and 2
-- cancel, 3 redrive, up to the member done. due_us is when the sweep looks at it: for what it does, for a callback, or to remove it.
create table sj_workflow (
	id bigint not null, name text collate "C" not null primary key, owner text collate "C" not null, digest bytea not null,
	state int not null, generation int not null,
	total bigint not null, completed bigint not null, failed bigint not null, cancelled bigint not null,
	on_end text not null, on_failure text not null, end_job bigint not null, failure_job bigint not null,
	owed int not null, fired int not null,
	doing int not null, done text collate "C" not null, by_whom text not null, reason text not null, problem text not null,
	due_us bigint not null, keep_us bigint not null, created_us bigint not null, updated_us bigint not null, ended_us bigint not null,
	constraint workflow_name check (name <> ''),
	constraint workflow_state check (state in (1, 2, 7, 8, 9, 10)),
	constraint workflow_owed check (owed between 0 and 3),
	constraint workflow_doing check (doing between 0 and 3),
	constraint workflow_counters check ((total | completed | failed | cancelled | end_job | failure_job | fired) >= 0)
);
create index ix_workflow_id on sj_workflow (id);
create index ix_workflow_due on sj_workflow (due_us, id) where due_us < 9223372036854775807;
create index ix_workflow_open on sj_workflow (owner) where state = 1;

-- The members. state is 0 while the job is stored; afterwards it is the state in which the job ended. digest identifies the content.
create table sj_member (
	workflow bigint not null,
	name text collate "C" not null,
	job bigint not null,
	state int not null,
	digest bigint not null,
	primary key (workflow, name),
	constraint member_state check (state = 0 or state between 7 and 9)
);
create index ix_member_job on sj_member (job);

-- The queues and kinds of the members: what a token must have grants for.
create table sj_workflow_scope (
	workflow bigint not null,
	queue text collate "C" not null,
	kind text collate "C" not null,
	primary key (workflow, queue, kind)
);

-- Ends of members that are not in the counts yet: one row for each transaction that has ended members. Redrives count backwards. failures counts only ends
-- that are no completions. Nobody waits for anybody: whoever has the lock of the workflow's row adds these up.
create table sj_workflow_end (
	workflow bigint not null, completed bigint not null, failed bigint not null, cancelled bigint not null, failures bigint not null,
	constraint workflow_end_failures check (failures >= 0)
);
create index ix_workflow_end on sj_workflow_end (workflow);

-- Failure groups: failures of one queue, kind and reason whose error texts have the same fingerprint. id is a hash of these four. Rows of sj_failure_new are counts that
-- are not added up yet: a transaction adds one for each group that it has counted in, so that nobody waits for anybody. A sweep adds them up. attempts counts failed
-- attempts, and failed counts jobs that ended as failed. The failed jobs of a group have its id in sj_final.failure. other = 1: a queue has too many groups, and
-- this one has the rest. muted_until_us is the largest int64 for a mute without an end. due_us is when the sweep looks whether the group is still needed.
create table sj_failure (
	id bigint not null primary key, attempts bigint not null, failed bigint not null, first_us bigint not null, last_us bigint not null,
	sample_job bigint not null, muted_us bigint not null, muted_until_us bigint not null, due_us bigint not null, other bigint not null,
	queue text collate "C" not null, kind text collate "C" not null, reason text not null, pattern text not null, sample bytea not null,
	muted_by text not null, mute_reason text not null,
	constraint failure_id check (id > 0)
);
create index ix_failure_last on sj_failure (last_us, id);
create index ix_failure_queue on sj_failure (queue, last_us, id);
create index ix_failure_due on sj_failure (due_us);
create table sj_failure_new (
	id bigint not null, attempts bigint not null, failed bigint not null, first_us bigint not null, last_us bigint not null, sample_job bigint not null,
	queue text collate "C" not null, kind text collate "C" not null, reason text not null, pattern text not null, sample bytea not null
);
create index ix_failure_new on sj_failure_new (id);

-- Stored operations: changes of many jobs, which any process carries out slice by slice. spec (JSON) has the filter and the edit. cursor is the id of the last job that was
-- handled. state: 1 running, 2 waits for its canaries, 3 paused, 4 stopped, 7 completed, 9 cancelled. canaries (JSON) are the jobs to wait for. owner is the access
-- token with whose grants it runs. runner is the process that carries it out, until lease_us. due_us is when the next slice may run, or when the row is deleted.
create table sj_operation (
	id text collate "C" not null primary key, owner text collate "C" not null, digest bytea not null, spec text not null, state bigint not null,
	total bigint not null, changed bigint not null, unchanged bigint not null, refused bigint not null, cursor bigint not null, canaries text not null,
	problem text not null, runner text not null, lease_us bigint not null, due_us bigint not null, created_us bigint not null, updated_us bigint not null,
	ended_us bigint not null,
	constraint operation_id check (id <> ''),
	constraint operation_state check (state in (1, 2, 3, 4, 7, 9))
);
create index ix_operation_due on sj_operation (due_us, id) where due_us < 9223372036854775807;
create index ix_operation_created on sj_operation (created_us, id);

-- Tokens that open the door of a server. grants is JSON; the secret itself is nowhere.
create table sj_access (
	id text collate "C" not null primary key, name text not null, hash bytea not null, grants text not null, created_us bigint not null,
	expires_us bigint not null, revoked_us bigint not null, used_us bigint not null,
	constraint access_id check (id <> ''),
	constraint access_hash check (length(hash) = 32),
	constraint access_expires check (expires_us > 0),
	constraint access_times check ((created_us | revoked_us | used_us) >= 0)
);

-- What operators did through a server.
create table sj_audit (
	seq bigint not null primary key, at_us bigint not null, who text not null, action text not null, target text not null, detail text not null,
	code text not null, request text not null, source text not null,
	constraint audit_seq check (seq > 0)
);
