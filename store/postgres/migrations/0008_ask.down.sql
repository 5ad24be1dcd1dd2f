drop table sj_ask;
