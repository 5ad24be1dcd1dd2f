-- needs: 1

-- Statistics by UTC day (days since 1970), queue and kind. Each transaction adds one row to sj_stat_change with all that it has counted: the events have queues,
-- kinds, counts and single times (package jobstat). So nobody waits for anybody. A fold adds these rows up into sj_stat (counts, means, variances) and
-- sj_stat_histogram. born_us is when the generation of a job began, for its total time; 0 = before this step.
alter table sj_live add column born_us integer not null default 0;
create table sj_stat (
	day integer not null, queue text not null, kind text not null, data blob not null,
	primary key (day, queue, kind)
) strict, without rowid;
create table sj_stat_histogram (
	day integer not null, queue text not null, kind text not null, data blob not null,
	primary key (day, queue, kind)
) strict, without rowid;
create table sj_stat_change (day integer not null, events blob not null) strict;
