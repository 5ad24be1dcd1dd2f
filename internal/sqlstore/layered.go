package sqlstore

import (
	"cmp"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// layerTexts are the stored forms.
type layerTexts struct{ settings, declared, operator string }

// layered is a queue with its layers of settings. What is in force is derived from them when one
// changes, and stored beside them, so that claims read one column.
type layered struct {
	sojourn.QueueStatus
	found bool
	texts layerTexts
}

// scan reads the settings in force, and, from the column layer on, declared, operator and revision.
func (l *layered) scan(s *core, r sqldb.Row, settings, layer int) (err error) {
	l.texts = layerTexts{cmp.Or(r.Text(settings), "{}"), cmp.Or(r.Text(layer), "{}"), cmp.Or(r.Text(layer+1), "{}")}
	l.found, l.Revision, l.Counts = true, r.Int(layer+2), map[sojourn.State]int64{}
	if l.Settings, err = s.queueSettings(l.texts.settings); err != nil {
		return err
	}
	if l.Declared, err = s.queueSettings(l.texts.declared); err != nil {
		return err
	}
	return json.Unmarshal([]byte(l.texts.operator), &l.Overrides)
}
