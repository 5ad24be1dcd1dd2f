package upkeep

// heldBy selects the archives that keep the final job f from retention: it matches their filter,
// they have not exported this generation, and neither its end nor their creation is longer ago
// than they may wait. now is the parameter with the time.
func heldBy(now string) string {
	return `select 1 from sj_archive a where ` + QMatches + ` and (f.finished_us > ` + now + ` - a.wait_us or a.created_us > ` + now + ` - a.wait_us)
		and not exists (select 1 from sj_archived x where x.job = f.id and x.archive = a.id and x.generation = f.generation)`
}

const (
	// QMatches is the condition that the archive a takes the final job f.
	QMatches = `(a.queue = '' or a.queue = f.queue) and (a.kind = '' or a.kind = f.kind)
		and case f.state when 7 then a.completed when 8 then a.failed else a.cancelled end = 1`
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
var qRetire = `delete from sj_final as f where f.id = $1 and f.finished_us = $2 and f.state in (7, 8, 9) and not exists (` + heldBy("$3") + `)`
