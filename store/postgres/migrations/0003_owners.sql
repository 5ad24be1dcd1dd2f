-- needs: 1
-- Processes that hold a session lock: workers named id.something are theirs. lock_key is the key of the advisory lock. Each session locks a new key, so a lock that is gone
-- never comes back. server_us is when the server was started: a row from before a restart says nothing. The table is unlogged because a crash of the server and a failover
-- end all locks, and they empty an unlogged table.
create unlogged table sj_owner (
	id text collate "C" not null primary key, lock_key bigint not null, server_us bigint not null,
	constraint owner_id check (length(id) = 16)
);
