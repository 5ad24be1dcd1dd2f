package txn

import "github.com/sojourn-queue/sojourn/internal/sqldb"

const qSameShapes = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.shape = each($2 bigint)`

const qShapes = `select name, shape from sj_queue where name in (texts($1))`

func (t *Tx) verifyAssumed() error {
	if len(t.assumed) == 0 || !t.Wrote {
		return nil
	}
	names := make(sqldb.Texts, 0, len(t.assumed))
	for name := range t.assumed {
		names = append(names, name)
	}
	if err := t.Read(qShapes, func(r sqldb.Row) error {
		if shape, ok := t.assumed[r.Text(0)]; ok && shape == r.Int(1) {
			delete(t.assumed, r.Text(0))
		}
		return nil
	}, names); err != nil {
		return err
	}
	for name := range t.assumed {
		return Raced("the settings of queue " + name + " have changed meanwhile")
	}
	return nil
}

// AssumeSettings records that the transaction writes rows by settings that it has read without a
// lock. After these writes, verifyAssumed validates them; if they have changed, the transaction is
// repeated. If not, the reindexing after a later change waits for these writes.
func (t *Tx) AssumeSettings(queue string, shape int64) {
	if !t.Concurrent() {
		return
	}
	if t.assumed == nil {
		t.assumed = map[string]int64{}
	}
	if t.Optimistic && t.Core.Spoils("assumed layout") {
		shape++
	}
	t.assumed[queue] = shape
}

// stillAssumed is verifyAssumed as a statement that must find every queue.
func (t *Tx) stillAssumed() []Statement {
	if len(t.assumed) == 0 {
		return nil
	}
	var names sqldb.Texts
	var shapes sqldb.Ints
	for name, shape := range t.assumed {
		names, shapes = append(names, name), append(shapes, shape)
	}
	return []Statement{{sqldb.Statement{Text: qSameShapes, Rows: []sqldb.Column{names, shapes}, Wanted: int64(len(names))}, "settings have changed meanwhile"}}
}
