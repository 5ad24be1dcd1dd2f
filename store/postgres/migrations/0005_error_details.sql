-- needs: 4

-- The JSON details of errors: of the entry seq of a job's history, or of the last entry, which a final job has in sj_final. Apart, because few errors have one.
create table sj_error_detail (
	job bigint not null, seq int not null, detail bytea not null,
	primary key (job, seq),
	constraint error_detail_seq check (seq > 0)
);
