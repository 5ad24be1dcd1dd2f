drop table sj_error_detail;
