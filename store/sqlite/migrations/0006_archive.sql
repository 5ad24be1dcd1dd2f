-- needs: 5

-- Archives export final jobs before retention deletes them, by their makers: owner is an access token or ''. completed, failed and cancelled are 1 if the filter has the state.
-- wait_us is how long after its end a job is kept for the archive. epoch numbers the leases, runner has the last one, until lease_us. sequence and bytes are the place in the files
-- up to which jobs are recorded in sj_archived. scanned_us is when the last complete pass through the final jobs began. missed counts jobs that were deleted before they were exported.
create table sj_archive (
	owner text not null, name text not null, id integer not null, queue text not null, kind text not null, completed integer not null, failed integer not null,
	cancelled integer not null, target text not null, secret text not null, wait_us integer not null, created_us integer not null, epoch integer not null default 0,
	runner text not null default '', lease_us integer not null default 0, sequence integer not null default 0, bytes integer not null default 0,
	scanned_us integer not null default 0, exported integer not null default 0, missed integer not null default 0, exported_us integer not null default 0,
	primary key (owner, name),
	constraint archive_name check (name <> ''),
	constraint archive_states check (completed + failed + cancelled > 0)
) strict, without rowid;

-- The newest generation of a job that an archive has exported. A row goes with its job, also after the archive was removed.
create table sj_archived (
	job integer not null, archive integer not null, generation integer not null,
	primary key (job, archive)
) strict, without rowid;

-- What archives with the target table have exported. Nothing deletes these rows. archive is its id, name its name, as TOKEN/NAME if
-- an access token has made it. page is the job as JSON.
create table sj_archive_job (
	archive integer not null, job integer not null, generation integer not null, state integer not null, finished_us integer not null, archived_us integer not null,
	name text not null, queue text not null, kind text not null, key text not null, page text not null,
	primary key (archive, job, generation)
) strict, without rowid;
