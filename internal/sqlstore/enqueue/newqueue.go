package enqueue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Queues are numbered in the order of their creation, by an index on seq, so that the cost of a new
// queue does not depend on their number. owner is the access token whose job has created the queue.
const (
	qCreateQueues = `insert into sj_queue (name, seq, owner) select each($2 text), coalesce((select max(seq) from sj_queue), 0) + each($1 bigint), each($3 text)
		/*from each*/ where 1 = 1 on conflict (name) do nothing`
	qCreatedQueues = `select count(*) from (select 1 from sj_queue where owner = $1 and owner <> '' limit $2) a`
)

// createQueue notes that the call creates a queue, unless its token has created too many.
func (b *Batch) createQueue(name string) error {
	if b.created[name] {
		return nil
	}
	if err := b.checkQueueLimit(); err != nil {
		return err
	}
	if b.created == nil {
		b.created = map[string]bool{}
	}
	b.created[name] = true
	return nil
}

// checkQueueLimit refuses another queue to a token that has created as many as it may. Concurrent
// transactions do not see each other's new queues, so each of them may go to the limit.
func (b *Batch) checkQueueLimit() error {
	if b.caller == nil || b.caller.MaxQueues <= 0 {
		return nil
	}
	owner, most := b.caller.Owner(), int64(b.caller.MaxQueues)
	n, ok := b.counted[owner]
	if !ok {
		err := b.Read(qCreatedQueues, func(r sqldb.Row) error { n = r.Int(0); return nil }, owner, most)
		if err != nil {
			return err
		}
		if b.counted == nil {
			b.counted = map[string]int64{}
		}
		b.counted[owner] = n
	}
	if n+int64(len(b.created)) < most {
		return nil
	}
	return &sojourn.Error{Code: sojourn.CodeQueueLimit, Field: "queue", Index: -1,
		Message: fmt.Sprintf("jobs of this token have created %d queues, as many as it may (--max-queues-per-token); use one of them, or have an operator forget empty ones", n)}
}

// insertQueues creates the queues that the calls have named first.
func (b *Batch) insertQueues(plans []*callPlan) {
	owners := map[string]string{}
	for _, p := range plans {
		for name := range p.created {
			owners[name] = p.caller.Owner()
		}
	}
	if len(owners) == 0 {
		return
	}
	names := sqldb.Texts(slices.Sorted(maps.Keys(owners)))
	of, ones := make(sqldb.Texts, len(names)), make(sqldb.Ints, len(names))
	for i, name := range names {
		of[i], ones[i] = owners[name], 1
	}
	b.AddBulk(qCreateQueues, 0, "", ones, names, of)
}
