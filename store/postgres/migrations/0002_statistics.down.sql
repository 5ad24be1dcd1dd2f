drop table sj_stat_change;
drop table sj_stat_histogram;
drop table sj_stat;
alter table sj_live drop column born_us;
