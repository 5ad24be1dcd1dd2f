-- needs: 7

-- by_whom is the operator who has written the line, '' for the handler. Programs that do not know it write lines of handlers as before.
alter table sj_log add column by_whom text not null default '';

-- The size of a job's checkpoint at the end of a step: of the entry seq of its history, or of the last entry, which a final job has in sj_final. Apart, because few jobs
-- have a checkpoint. Programs that do not know the table store no sizes, and leave those of the jobs that they delete.
create table sj_checkpoint (
	job bigint not null, seq bigint not null, bytes bigint not null,
	primary key (job, seq),
	constraint checkpoint_size check (seq > 0 and bytes > 0)
);
