-- needs: 4

-- Events are transitions of jobs. They are stored while there is a follower, until all followers have read them or 24 hours have passed. tags are those of the job at the
-- time of the transition, as in sj_job. from_state is 0 for a job that was enqueued or redriven. xid is 0: transactions commit one after another, in the order of id.
create table sj_event (
	id integer not null primary key autoincrement,
	xid integer not null, job integer not null, at_us integer not null, from_state integer not null, state integer not null, generation integer not null,
	attempt integer not null, queue text not null, kind text not null, key text not null, tags text not null
) strict;

-- Followers of events by their makers, owner is an access token or ''. (xid, id) is the position of the last event that the follower has acknowledged, gap is 1 if events
-- up to there were deleted before it had read them, seen_us is when it was used last, to the hour.
create table sj_follower (
	owner text not null, name text not null, filter text not null, xid integer not null, id integer not null, gap integer not null default 0,
	created_us integer not null, seen_us integer not null,
	primary key (owner, name),
	constraint follower_name check (name <> '')
) strict, without rowid;
