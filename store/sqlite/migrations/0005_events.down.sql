drop table sj_follower;
drop table sj_event;
