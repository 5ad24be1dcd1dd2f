drop table sj_archive_job;
drop table sj_archived;
drop table sj_archive;
