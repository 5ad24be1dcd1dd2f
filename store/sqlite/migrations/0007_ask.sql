-- needs: 6

-- The questions of waits for people, as JSON. seq is the entry of the job's history with which the wait began; generation, attempt and wait are those of its capability.
create table sj_ask (
	job integer not null, seq integer not null, generation integer not null, stage integer not null, attempt integer not null, wait integer not null, asked_us integer not null, question blob not null,
	primary key (job, seq),
	constraint ask_seq check (seq > 0)
) strict, without rowid;
