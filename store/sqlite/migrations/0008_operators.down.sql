drop table sj_checkpoint;
alter table sj_log drop column by_whom;
