drop table sj_follower;
drop sequence sj_event_seq;
drop table sj_event;
