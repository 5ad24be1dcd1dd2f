-- The tags of jobs, live and final, so that jobs are found by a tag. sj_job.tags has the same tags as a list. tagged_us is when the job got the tag.
create table sj_tag (
	tag text collate "C" not null, job bigint not null, tagged_us bigint not null,
	primary key (tag, job)
);
create index ix_tag_time on sj_tag (tag, tagged_us, job);
create index ix_tag_job on sj_tag (job);
insert into sj_tag (tag, job, tagged_us) select e.tag, j.id, j.created_us from sj_job j, jsonb_array_elements_text(j.tags::jsonb) e (tag) where j.tags <> '';
