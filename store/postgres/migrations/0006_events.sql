-- needs: 5

-- Events are transitions of jobs. They are stored while there is a follower, until all followers have read them or 24 hours have passed. tags are those of the job at the
-- time of the transition, as in sj_job. from_state is 0 for a job that was enqueued or redriven. xid is the id of the transaction that has stored the event, or that of the
-- event of its job before, if that is higher: see decision 067.
create table sj_event (
	xid bigint not null, id bigint not null, job bigint not null, at_us bigint not null, from_state bigint not null, state bigint not null, generation bigint not null,
	attempt bigint not null, queue text collate "C" not null, kind text collate "C" not null, key text collate "C" not null, tags text not null,
	primary key (xid, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index ix_event_job on sj_event (job, xid);
create sequence sj_event_seq;

-- Followers of events by their makers, owner is an access token or ''. (xid, id) is the position of the last event that the follower has acknowledged, gap is 1 if events
-- up to there were deleted before it had read them, seen_us is when it was used last, to the hour.
create table sj_follower (
	owner text collate "C" not null, name text collate "C" not null, filter text not null, xid bigint not null, id bigint not null, gap bigint not null default 0,
	created_us bigint not null, seen_us bigint not null,
	primary key (owner, name),
	constraint follower_name check (name <> '')
);
