-- needs: 6

-- Archives export final jobs before retention deletes them, by their makers: owner is an access token or ''. completed, failed and cancelled are 1 if the filter has the state.
-- wait_us is how long after its end a job is kept for the archive. epoch numbers the leases, runner has the last one, until lease_us. sequence and bytes are the place in the files
-- up to which jobs are recorded in sj_archived. scanned_us is when the last complete pass through the final jobs began. missed counts jobs that were deleted before they were exported.
create table sj_archive (
	owner text collate "C" not null, name text collate "C" not null, id bigint not null, queue text collate "C" not null, kind text collate "C" not null, completed bigint not null, failed bigint not null,
	cancelled bigint not null, target text not null, secret text not null, wait_us bigint not null, created_us bigint not null, epoch bigint not null default 0,
	runner text collate "C" not null default '', lease_us bigint not null default 0, sequence bigint not null default 0, bytes bigint not null default 0,
	scanned_us bigint not null default 0, exported bigint not null default 0, missed bigint not null default 0, exported_us bigint not null default 0,
	primary key (owner, name),
	constraint archive_name check (name <> ''),
	constraint archive_states check (completed + failed + cancelled > 0)
);

-- The newest generation of a job that an archive has exported. A row goes with its job, also after the archive was removed.
create table sj_archived (
	job bigint not null, archive bigint not null, generation bigint not null,
	primary key (job, archive)
);

-- What archives with the target table have exported. Nothing deletes these rows. archive is its id, name its name, as TOKEN/NAME if
-- an access token has made it. page is the job as JSON.
create table sj_archive_job (
	archive bigint not null, job bigint not null, generation bigint not null, state bigint not null, finished_us bigint not null, archived_us bigint not null,
	name text collate "C" not null, queue text collate "C" not null, kind text collate "C" not null, key text collate "C" not null, page text not null,
	primary key (archive, job, generation)
);
