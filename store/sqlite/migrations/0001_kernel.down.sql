-- Takes everything away, with all jobs. Indexes go with their tables.
drop table sj_worker;
drop table sj_message;
drop table sj_response;
drop table sj_log;
drop table sj_history;
drop table sj_final;
drop table sj_data;
drop table sj_key_past;
drop table sj_key;
drop table sj_landed;
drop table sj_flight;
drop table sj_live;
drop table sj_job;
drop table sj_bucket;
drop table sj_queue;
drop table sj_block;
drop table sj_meta;
