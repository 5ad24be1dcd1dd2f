package storeconfig

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/config"
)

const (
	// qLock makes changes wait for each other, so that their number is bounded.
	qLock  = `insert into sj_meta (name, value) values ('config', '') on conflict (name) do update set value = excluded.value`
	qUnset = `delete from sj_meta where name = $1`
)

// Settings lists and changes the settings of a store. Safe for concurrent use.
type Settings struct{ core *txn.Core }

// New makes the Settings of a store.
func New(c *txn.Core) *Settings { return &Settings{c} }

// allowed refuses tokens without the verb admin for everything.
func allowed(ctx context.Context) (*access.Caller, error) {
	c := access.CallerOf(ctx)
	if !c.Allows(access.VerbAdmin, "", "") {
		return c, &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant for admin in all queues, and settings of the store concern all of them; use one that has"}
	}
	return c, nil
}

// Config lists settings; see config.Store.
func (s *Settings) Config(ctx context.Context) (out []config.Setting, err error) {
	if _, err := allowed(ctx); err != nil {
		return nil, err
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		all, err := Read(t)
		out = all.list(&s.core.Cfg)
		return err
	})
	return out, err
}

// list are the known settings and those that are set, by name.
func (v Values) list(cfg *txn.Config) (out []config.Setting) {
	days, histograms := v.Days(cfg)
	inForce := map[string]string{config.WorkerLife: v.WorkerLife().String(), config.StatisticsDays: strconv.Itoa(days), config.HistogramDays: strconv.Itoa(histograms)}
	for name, s := range v {
		inForce[name] = s.Value
	}
	for _, name := range slices.Sorted(maps.Keys(inForce)) {
		one := config.Setting{Name: name, Value: inForce[name]}
		if s, ok := v[name]; ok {
			one.Set, one.By, one.At = true, s.By, jobrow.Time(s.At)
		}
		out = append(out, one)
	}
	return out
}

// change sets a setting, or unsets it.
type change struct {
	name, value, by string
	unset           bool
}

// SetConfig sets a setting; see config.Store.
func (s *Settings) SetConfig(ctx context.Context, name, value, by string) (config.Setting, error) {
	c, err := allowed(ctx)
	if err != nil {
		return config.Setting{}, err
	}
	if value, err = config.Parse(name, value); err != nil {
		return config.Setting{}, err
	}
	if c != nil {
		by = strings.TrimSuffix(c.Token+"/"+by, "/")
	}
	return txn.Do(ctx, s.core, changeOp, txn.Alone, change{name: name, value: jobrow.Storable(value), by: sojourn.Cut(by, sojourn.MaxKey)})
}

// UnsetConfig removes what was set; see config.Store.
func (s *Settings) UnsetConfig(ctx context.Context, name string) error {
	if _, err := allowed(ctx); err != nil {
		return err
	}
	if err := config.ValidName(name); err != nil {
		return err
	}
	_, err := txn.Do(ctx, s.core, changeOp, txn.Alone, change{name: name, unset: true})
	return err
}

var changeOp = txn.EachOp("change setting", groupcommit.Finish, func(t *txn.Tx, c change) (config.Setting, error) {
	if _, err := t.Write(qLock); err != nil {
		return config.Setting{}, err
	}
	if c.unset {
		_, err := t.Write(qUnset, prefix+c.name)
		if err == nil {
			_, err = Read(t)
		}
		return config.Setting{}, err
	}
	all, err := Read(t)
	if err != nil {
		return config.Setting{}, err
	}
	free := 0
	for name := range all {
		if strings.HasPrefix(name, config.FreePrefix) && name != c.name {
			free++
		}
	}
	if strings.HasPrefix(c.name, config.FreePrefix) && free >= config.MaxFree {
		return config.Setting{}, sojourn.Conflict("the store has %d free settings, which is the limit; unset one first", free)
	}
	text, err := jobrow.JSONText(stored{c.value, c.by, t.Now})
	if err != nil {
		return config.Setting{}, err
	}
	if _, err := t.Write(txn.QSetMeta, prefix+c.name, text); err != nil {
		return config.Setting{}, err
	}
	_, err = Read(t)
	return config.Setting{Name: c.name, Value: c.value, Set: true, By: c.by, At: jobrow.Time(t.Now)}, err
})
