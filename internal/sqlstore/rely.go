package sqlstore

import "github.com/sojourn-queue/sojourn/internal/sqldb"

const qSameShapes = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.shape = each($2 bigint)`

const qShapes = `select name, shape from sj_queue where name in (texts($1))`

func (t *tx) checkRelied() error {
	if len(t.relied) == 0 || !t.wrote {
		return nil
	}
	names := make(sqldb.Texts, 0, len(t.relied))
	for name := range t.relied {
		names = append(names, name)
	}
	if err := t.query(qShapes, func(r sqldb.Row) error {
		if shape, ok := t.relied[r.Text(0)]; ok && shape == r.Int(1) {
			delete(t.relied, r.Text(0))
		}
		return nil
	}, names); err != nil {
		return err
	}
	for name := range t.relied {
		return raced("the settings of queue " + name + " have changed meanwhile")
	}
	return nil
}

// rely records that the transaction writes rows by settings that it has read without a lock. After
// these writes, checkRelied validates them; if they have changed, the transaction is repeated. If
// not, the reindexing after a later change waits for these writes.
func (t *tx) rely(queue string, shape int64) {
	if !t.concurrent() {
		return
	}
	if t.relied == nil {
		t.relied = map[string]int64{}
	}
	t.relied[queue] = shape
}

// stillRelied is checkRelied as a statement that must find every queue.
func (t *tx) stillRelied() []statement {
	if len(t.relied) == 0 {
		return nil
	}
	var names sqldb.Texts
	var shapes sqldb.Ints
	for name, shape := range t.relied {
		names, shapes = append(names, name), append(shapes, shape)
	}
	return []statement{{sqldb.Statement{Text: qSameShapes, Rows: []sqldb.Column{names, shapes}, Wanted: int64(len(names))}, "settings have changed meanwhile"}}
}
