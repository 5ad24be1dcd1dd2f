// Package config has the settings that a store keeps for all processes that use it: known ones,
// which the store itself obeys, and free ones of operators, whose names begin with "x-". They are
// not the settings of a program, which stand in its flags, its environment and its file.
package config

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// The known settings.
const (
	WorkerLife     = "worker_life"     // how long a worker is listed after its last sign of life: 10m to 8760h
	StatisticsDays = "statistics_days" // how many days of statistics are kept, today included: 1 to 3650
	HistogramDays  = "histogram_days"  // how many days of their histograms are kept, today included: 1 to 3650
)

// Limits of settings.
const (
	FreePrefix   = "x-"    // of the names of free settings
	MaxName      = 64      // bytes of a name
	MaxValue     = 4 << 10 // bytes of a value
	MaxFree      = 100     // free settings of a store
	LeastLife    = 10 * time.Minute
	LongestLife  = 365 * 24 * time.Hour
	MostKeptDays = 3650
)

// Known lists the names of the known settings.
func Known() []string { return []string{HistogramDays, StatisticsDays, WorkerLife} }

// Default is the value of a known setting that neither an operator nor an option of a program has
// set.
func Default(name string) string {
	return map[string]string{WorkerLife: sojourn.WorkerLife.String(), StatisticsDays: strconv.Itoa(statistics.DefaultDays), HistogramDays: strconv.Itoa(statistics.DefaultHistogramDays)}[name]
}

// Setting is a setting of a store, with the value in force.
type Setting struct {
	Name  string    `json:"name"`
	Value string    `json:"value"`
	Set   bool      `json:"set"`          // an operator has set it; a known one that is not has the value of the program or its default
	By    string    `json:"by,omitempty"` // who has set it
	At    time.Time `json:"at,omitzero"`  // when
}

// ValidName checks the name of a setting.
func ValidName(name string) error {
	switch {
	case len(name) > MaxName:
		return sojourn.Invalid("setting", "a name has at most %d bytes, this one has %d", MaxName, len(name))
	case slices.Contains(Known(), name):
		return nil
	case !strings.HasPrefix(name, FreePrefix) || name == FreePrefix:
		return sojourn.Invalid("setting", "the store has no setting %.64q; known are %s, and free ones begin with %q", name, strings.Join(Known(), ", "), FreePrefix)
	}
	return sojourn.ValidName("setting", name)
}

// Parse checks the value of a setting, and returns the form in which it is stored.
func Parse(name, value string) (string, error) {
	if err := ValidName(name); err != nil {
		return "", err
	}
	switch name {
	case WorkerLife:
		d, err := time.ParseDuration(value)
		if err != nil || d < LeastLife || d > LongestLife {
			return "", sojourn.Invalid(name, "%.64q is not a duration from %v to %v, such as 24h", value, LeastLife, LongestLife)
		}
		return d.String(), nil
	case StatisticsDays, HistogramDays:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > MostKeptDays {
			return "", sojourn.Invalid(name, "%.64q is not a number of days from 1 to %d", value, MostKeptDays)
		}
		return strconv.Itoa(n), nil
	}
	if len(value) > MaxValue {
		return "", &sojourn.Error{Code: sojourn.CodeTooLarge, Field: name, Index: -1,
			Message: fmt.Sprintf("%d bytes exceed the limit of %d for a setting; store the value elsewhere and keep a reference", len(value), MaxValue)}
	}
	return value, nil
}

// Store is an optional ability of a sojourn.Store: it keeps settings. Safe for concurrent use. An
// access token needs the verb admin for all queues and kinds, or the error has access.CodeScope.
type Store interface {
	// Config lists the known settings and the free ones that are set, by name.
	Config(ctx context.Context) ([]Setting, error)
	// SetConfig sets a setting. by is the operator; on behalf of an access token the name begins
	// with the token's id. The error has CodeInvalid or CodeTooLarge if the name or the value is
	// bad, and CodeConflict if there are MaxFree free settings.
	SetConfig(ctx context.Context, name, value, by string) (Setting, error)
	// UnsetConfig removes the value of a setting. It is no error if the setting is not set.
	UnsetConfig(ctx context.Context, name string) error
}

// Config are the calls about the settings of a client's store. Safe for concurrent use.
type Config struct{ store Store }

// Of returns the calls about settings of a client. If its store keeps none, each call returns an
// error with CodeInvalid. The stores of this module do.
func Of(c *sojourn.Client) Config { return Config{StoreOf(c.Store())} }

// StoreOf is a store's ability to keep settings. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if c, ok := s.(Store); ok {
		return c
	}
	return none{}
}

// All lists the known settings and the free ones that are set, by name.
func (c Config) All(ctx context.Context) ([]Setting, error) { return c.store.Config(ctx) }

// Get returns one setting. ErrNotFound if it is a free one that is not set.
func (c Config) Get(ctx context.Context, name string) (Setting, error) {
	if err := ValidName(name); err != nil {
		return Setting{}, err
	}
	all, err := c.store.Config(ctx)
	if err != nil {
		return Setting{}, err
	}
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, sojourn.NotFound("the setting %.64q is not set", name)
	}
	return all[i], nil
}

// Set sets a setting for all processes that use the store, see Store. by is the operator. Other
// processes obey it within 2 s.
func (c Config) Set(ctx context.Context, name, value, by string) (Setting, error) {
	return c.store.SetConfig(ctx, name, value, by)
}

// Unset removes the value of a setting: a known one has the value of the program or its default
// again, a free one is gone.
func (c Config) Unset(ctx context.Context, name string) error { return c.store.UnsetConfig(ctx, name) }

// none is a store that keeps no settings.
type none struct{}

var errNone = sojourn.Invalid("store", "this store keeps no settings; use one of store/sqlite, store/postgres or httpapi")

func (none) Config(context.Context) ([]Setting, error) { return nil, errNone }
func (none) SetConfig(context.Context, string, string, string) (Setting, error) {
	return Setting{}, errNone
}
func (none) UnsetConfig(context.Context, string) error { return errNone }
