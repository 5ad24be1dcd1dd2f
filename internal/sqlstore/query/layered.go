package query

import (
	"cmp"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// LayerTexts are the stored forms.
type LayerTexts struct{ Settings, Declared, Operator string }

// LayeredSettings is a queue with its layers of settings. What is in force is derived from them
// when one changes, and stored beside them, so that claims read one column.
type LayeredSettings struct {
	sojourn.QueueStatus
	Found bool
	Texts LayerTexts
}

// Scan reads the settings in force, and, from the column layer on, declared, operator and revision.
func (l *LayeredSettings) Scan(s *txn.Core, r sqldb.Row, settings, layer int) (err error) {
	l.Texts = LayerTexts{cmp.Or(r.Text(settings), "{}"), cmp.Or(r.Text(layer), "{}"), cmp.Or(r.Text(layer+1), "{}")}
	l.Found, l.Revision, l.Counts = true, r.Int(layer+2), map[sojourn.State]int64{}
	if l.Settings, err = s.QueueSettings(l.Texts.Settings); err != nil {
		return err
	}
	if l.Declared, err = s.QueueSettings(l.Texts.Declared); err != nil {
		return err
	}
	return json.Unmarshal([]byte(l.Texts.Operator), &l.Overrides)
}
