-- The tags of jobs, live and final, so that jobs are found by a tag. sj_job.tags has the same tags as a list. tagged_us is when the job got the tag.
create table sj_tag (
	tag text not null, job integer not null, tagged_us integer not null,
	primary key (tag, job)
) strict, without rowid;
create index ix_tag_time on sj_tag (tag, tagged_us, job);
create index ix_tag_job on sj_tag (job);
insert into sj_tag (tag, job, tagged_us) select e.value, j.id, j.created_us from sj_job j, json_each(j.tags) e where j.tags <> '';
