// Package storeconfig reads and changes the settings that a store keeps for all its processes, see
// the public package store/config. Each is a row of sj_meta.
package storeconfig

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/config"
)

const (
	prefix = "config." // of the names in sj_meta
	// qAll: the character after a point is a slash.
	qAll = `select name, value from sj_meta where name > 'config.' and name < 'config/'`
)

// stored is the value in sj_meta.
type stored struct {
	Value string `json:"value"`
	By    string `json:"by,omitempty"`
	At    int64  `json:"at"` // microseconds
}

// Values are the settings that operators have set, by name.
type Values map[string]stored

// Read reads the settings, and notes those that claims obey without reading them.
func Read(t *txn.Tx) (Values, error) {
	all := Values{}
	err := t.Read(qAll, func(r sqldb.Row) error {
		var s stored
		err := json.Unmarshal([]byte(r.Text(1)), &s)
		all[strings.TrimPrefix(r.Text(0), prefix)] = s
		return err
	})
	if err == nil {
		t.Core.Workers.Life.Store(int64(all.WorkerLife()))
	}
	return all, err
}

// WorkerLife is how long a worker is listed after its last sign of life.
func (v Values) WorkerLife() time.Duration {
	d, _ := time.ParseDuration(v.value(config.WorkerLife, "")) // it was checked before it was stored
	return d
}

// Days are the days of statistics and of histograms that are kept.
func (v Values) Days(cfg *txn.Config) (days, histograms int) {
	days, _ = strconv.Atoi(v.value(config.StatisticsDays, strconv.Itoa(cfg.StatisticsDays)))
	histograms, _ = strconv.Atoi(v.value(config.HistogramDays, strconv.Itoa(cfg.HistogramDays)))
	return days, histograms
}

// value is the value in force: what an operator has set, else that of the program, else the
// default.
func (v Values) value(name, program string) string {
	if s, ok := v[name]; ok {
		return s.Value
	}
	return cmp.Or(program, config.Default(name))
}

// WorkerLife reads how long a worker is listed after its last sign of life.
func WorkerLife(t *txn.Tx) (time.Duration, error) {
	all, err := Read(t)
	return all.WorkerLife(), err
}
