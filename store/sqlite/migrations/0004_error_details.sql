-- needs: 3

-- The JSON details of errors: of the entry seq of a job's history, or of the last entry, which a final job has in sj_final. Apart, because few errors have one.
create table sj_error_detail (
	job integer not null, seq integer not null, detail blob not null,
	primary key (job, seq),
	constraint error_detail_seq check (seq > 0)
) strict, without rowid;
