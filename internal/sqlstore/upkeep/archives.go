package upkeep

import "github.com/sojourn-queue/sojourn/internal/sqlstore/query"

const (
	// QForgetArchived removes what archives have recorded of a job.
	QForgetArchived = `delete from sj_archived where job = $1`
	// qMissed counts a deleted job for the archives that have not exported it. It runs before
	// QForgetArchived.
	qMissed = `update sj_archive set missed = missed + 1 where (queue = '' or queue = $3) and (kind = '' or kind = $4)
		and case cast($5 as bigint) when 7 then completed when 8 then failed else cancelled end = 1
		and not exists (select 1 from sj_archived x where x.job = $1 and x.archive = sj_archive.id and x.generation = $2)`
)

// qRetire is qRemove by retention. The statement itself checks the archives: AddArchive waits for
// the transactions that have written sj_final before, and each later statement sees the archive.
var qRetire = `delete from sj_final as f where f.id = $1 and f.finished_us = $2 and f.state in (7, 8, 9) and not exists (` + query.HeldBy("$3") + `)`
