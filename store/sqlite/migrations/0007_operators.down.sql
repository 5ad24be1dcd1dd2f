alter table sj_log drop column by_whom;
