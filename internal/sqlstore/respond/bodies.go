package respond

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// refuseJSON refuses the calls with a body that does not parse. It runs when the jobs of the
// responses are known: a job may declare another content type.
func (b *batch) refuseJSON() error {
	if err := b.readTypes(); err != nil {
		return err
	}
	for i := range b.calls {
		c := &b.calls[i]
		for k := range c.responses {
			if err := b.Loaded.Types.Refusal(c.targets[k].notJSON, c.targets[k].id); c.refused == nil && err != nil {
				c.refused = sojourn.AtIndex(k, err)
			}
		}
	}
	return nil
}

// readTypes reads the content types that the responses need and Reads has not read. A key may have
// got another job since Reads ran.
func (b *batch) readTypes() error {
	var ids sqldb.Ints
	b.eachAccepted(func(_ *sojourn.Response, to *target) {
		if _, known := b.Loaded.Types[to.id]; !known && to.id != 0 && to.notJSON.Undeclared() {
			ids = append(ids, int64(to.id))
		}
	})
	return b.ReadTypesOf(ids)
}

// needTypes reports whether any response depends on the content type of its job.
func (b *batch) needTypes() (need bool) {
	b.eachAccepted(func(_ *sojourn.Response, to *target) { need = need || to.notJSON.Undeclared() })
	return need
}

// scanType notes the content type of a job, which Reads reads with its row.
func (b *batch) scanType(row sqldb.Row, l *jobrow.Row) error {
	b.Loaded.Types[l.ID] = row.Text(jobrow.LiveColumnCount)
	return b.scanLeased(row, l)
}
