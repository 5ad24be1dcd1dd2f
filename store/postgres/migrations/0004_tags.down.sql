drop table sj_tag;
