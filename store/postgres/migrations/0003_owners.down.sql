drop table sj_owner;
