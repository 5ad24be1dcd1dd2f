package query

import (
	"cmp"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// LayeredSettings is a queue with its layers of settings: what programs declare, and what operators
// override. The settings in force are derived from both when one changes, and stored beside them,
// so that a claim reads one column.
type LayeredSettings struct {
	sojourn.QueueStatus
	Found bool
	Texts LayerTexts
}

// LayerTexts are the stored forms: of the settings in force and of both layers.
type LayerTexts struct{ Settings, Declared, Operator string }

// Scan reads the settings in force, and, from the column layer on, declared, operator and revision.
func (l *LayeredSettings) Scan(c *txn.Core, r sqldb.Row, settings, layer int) (err error) {
	l.Texts = LayerTexts{cmp.Or(r.Text(settings), "{}"), cmp.Or(r.Text(layer), "{}"), cmp.Or(r.Text(layer+1), "{}")}
	l.Found, l.Revision, l.Counts = true, r.Int(layer+2), map[sojourn.State]int64{}
	if l.Settings, err = c.QueueSettings(l.Texts.Settings); err != nil {
		return err
	}
	if l.Declared, err = c.QueueSettings(l.Texts.Declared); err != nil {
		return err
	}
	return json.Unmarshal([]byte(l.Texts.Operator), &l.Overrides)
}
