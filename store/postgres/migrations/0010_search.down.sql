drop table sj_index;
drop table sj_field;
