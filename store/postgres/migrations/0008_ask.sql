-- needs: 7

-- The questions of waits for people, as JSON. seq is the entry of the job's history with which the wait began; generation, attempt and wait are those of its capability.
create table sj_ask (
	job bigint not null, seq int not null, generation int not null, stage int not null, attempt int not null, wait int not null, asked_us bigint not null, question bytea not null,
	primary key (job, seq),
	constraint ask_seq check (seq > 0)
);
