-- Values of the JSON of jobs, live and final, at the paths that the index of their queue names. A row counts only while its job is in the queue. A program that does not
-- know the table stores jobs without it, so it must stop before this step.
create table sj_field (
	queue text collate "C" not null, path text collate "C" not null, value text collate "C" not null, job bigint not null,
	primary key (queue, path, value, job)
);
create index ix_field_job on sj_field (job);

-- The queues with an index, and what of it is built. pass is 0 until the live jobs are indexed, then the state of the final jobs that are read, in the order of finished_us
-- and job, and 10 when the index is complete. mark_us: the results of jobs that ended later are not indexed yet.
create table sj_index (
	queue text collate "C" not null primary key, paths text collate "C" not null, pass bigint not null, finished_us bigint not null, job bigint not null, mark_us bigint not null,
	constraint index_pass check (pass = 0 or pass between 7 and 10)
);
