package query

// HeldBy selects the archives that keep the final job f from retention: it matches their filter,
// they have not exported this generation, and neither its end nor their creation is longer ago
// than they may wait. now is the parameter with the time.
func HeldBy(now string) string {
	return `select 1 from sj_archive a where (a.queue = '' or a.queue = f.queue) and (a.kind = '' or a.kind = f.kind)
		and case f.state when 7 then a.completed when 8 then a.failed else a.cancelled end = 1
		and (f.finished_us > ` + now + ` - a.wait_us or a.created_us > ` + now + ` - a.wait_us)
		and not exists (select 1 from sj_archived x where x.job = f.id and x.archive = a.id and x.generation = f.generation)`
}

// qWhyFinal also reads whether an archive holds the job.
var qWhyFinal = `select f.queue, f.kind, f.state, f.reason, (select count(*) from (` + HeldBy("$2") + ` limit 1) h) from sj_final f where f.id = $1`
