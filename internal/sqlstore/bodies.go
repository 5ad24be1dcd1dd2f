package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// refuseJSON refuses the calls with a body that does not parse. It runs after reads, which finds the
// jobs of the responses.
func (r *responding) refuseJSON() error {
	if err := r.readTypes(); err != nil {
		return err
	}
	for i := range r.calls {
		c := &r.calls[i]
		for k := range c.rs {
			if err := r.types.refusal(c.targets[k].notJSON, c.targets[k].id); c.refused == nil && err != nil {
				c.refused = sojourn.AtIndex(k, err)
			}
		}
	}
	return nil
}

// readTypes reads the content types that the responses need and reads has not read. A key may have
// got another job since reads ran.
func (r *responding) readTypes() error {
	var ids sqldb.Ints
	r.accepted(func(_ *sojourn.Response, to *target) {
		if _, known := r.types[to.id]; !known && to.id != 0 && to.notJSON.undeclared() {
			ids = append(ids, int64(to.id))
		}
	})
	return r.readTypesOf(ids)
}

// needTypes reports whether any response depends on the content type of its job.
func (r *responding) needTypes() (need bool) {
	r.accepted(func(_ *sojourn.Response, to *target) { need = need || to.notJSON.undeclared() })
	return need
}

// noteType notes the content type of a job, which reads reads with its row.
func (r *responding) noteType(row sqldb.Row, l *live) error {
	r.types[l.ID] = row.Text(liveColumnCount)
	return r.noteLeased(row, l)
}
