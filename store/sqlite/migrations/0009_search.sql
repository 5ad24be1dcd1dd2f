-- Values of the JSON of jobs, live and final, at the paths that the index of their queue names. A row counts only while its job is in the queue. A program that does not
-- know the table stores jobs without it, so it must stop before this step.
create table sj_field (
	queue text not null, path text not null, value text not null, job integer not null,
	primary key (queue, path, value, job)
) strict, without rowid;
create index ix_field_job on sj_field (job);

-- The queues with an index, and what of it is built. pass is 0 until the live jobs are indexed, then the state of the final jobs that are read, in the order of finished_us
-- and job, and 10 when the index is complete. mark_us: the results of jobs that ended later are not indexed yet.
create table sj_index (
	queue text not null primary key, paths text not null, pass integer not null, finished_us integer not null, job integer not null, mark_us integer not null,
	constraint index_pass check (pass = 0 or pass between 7 and 10)
) strict, without rowid;
