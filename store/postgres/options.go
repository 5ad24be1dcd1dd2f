package postgres

import (
	"regexp"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/statistics"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Option changes how a store opens.
type Option func(*options)

type options struct {
	throttlers map[string]throttle.Throttler
	rules      func(text string) (throttle.Throttler, error)
	maxBytes   int
	clock      func() time.Time // nil: the clock of the database
	inboxTTL   time.Duration    // 0: the store's default
	statistics [2]int           // days of statistics and of histograms; 0: the defaults
	relaxed    bool
	declared   bool
	migrate    bool
	schema     string
	prefix     string
	poll       time.Duration     // tests make it shorter
	limits     limits            // the same
	split      split             // of the connections
	more       []sqldb.Migration // of tests, after the real ones
}

// MaxBytes bounds args, result, response body and checkpoint, each, in bytes: 1 to
// sojourn.MaxMaxBytes, default sojourn.DefaultMaxBytes. All processes on one database should agree.
func MaxBytes(n int) Option { return func(o *options) { o.maxBytes = n } }

// Clock replaces the clock of the database, for tests that drive time themselves. now is called
// from several goroutines.
func Clock(now func() time.Time) Option { return func(o *options) { o.clock = now } }

// InboxTTL is the time to live of a response that matches no job: 1 s or more, default the store's
// own.
func InboxTTL(d time.Duration) Option { return func(o *options) { o.inboxTTL = d } }

// KeepStatistics sets how many days of statistics the store keeps, and of their histograms, today
// included: 1 to statistics.MaxDays, 0 for the defaults. Each process that sweeps deletes what its
// own numbers no longer keep, so all processes on one store should agree.
func KeepStatistics(days, histograms int) Option {
	return func(o *options) { o.statistics = [2]int{days, histograms} }
}

// Relaxed opens a database whose settings (fsync, synchronous_commit or full_page_writes off) may
// lose acknowledged writes. Status shows it as durability "relaxed". It changes no setting.
func Relaxed() Option { return func(o *options) { o.relaxed = true } }

// DeclaredQueues makes the store take jobs only for queues that were made with DeclareQueue or
// sojourn queue set; others are refused with ErrNotFound. By default the first job that names a
// queue makes it.
func DeclaredQueues() Option { return func(o *options) { o.declared = true } }

// AutoMigrate brings an older or missing schema to the newest version when the store opens. Without
// it Open refuses such a database and names the command, because on a database of many processes
// the operator decides when the tables change.
func AutoMigrate() Option { return func(o *options) { o.migrate = true } }

// Schema is the schema of the tables: [a-z_][a-z0-9_]*, up to 48 bytes. Default: the first one of
// the connection's search_path. AutoMigrate makes a missing one.
func Schema(name string) Option { return func(o *options) { o.schema = name } }

// Prefix begins the name of every table, so that several instances fit into one schema:
// [a-z_][a-z0-9_]*, up to 32 bytes, default "sj_".
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Throttle sets a queue's throttler in Go. It is called before each start, inside the claim's
// transaction, so it must be quick and must not call the store. The queue's setting throttle
// becomes "go", unless it has a rule: from then on processes without a throttler for it start none
// of its jobs.
func Throttle(queue string, t throttle.Throttler) Option {
	return func(o *options) {
		if o.throttlers == nil {
			o.throttlers = map[string]throttle.Throttler{}
		}
		o.throttlers[queue] = t
	}
}

// Rules enables the store to compile the throttle setting of queues: pass rule.Throttlers().
// Without it no job starts in a queue that has a rule, and why reports that.
func Rules(compile func(text string) (throttle.Throttler, error)) Option {
	return func(o *options) { o.rules = compile }
}

// newOptions applies the options over the defaults and checks the ranges.
func newOptions(list []Option) (options, error) {
	all, err := splitOf(mostConnections)
	if err != nil {
		return options{}, err
	}
	o := options{maxBytes: sojourn.DefaultMaxBytes, prefix: "sj_", poll: pollEvery, limits: defaultLimits, split: all}
	for _, option := range list {
		option(&o)
	}
	return o, o.check()
}

// check refuses values that are out of range.
func (o options) check() error {
	switch {
	case o.maxBytes < 1 || o.maxBytes > sojourn.MaxMaxBytes:
		return sojourn.Invalid("MaxBytes", "%d is out of range; allowed are 1 to %d", o.maxBytes, sojourn.MaxMaxBytes)
	case o.inboxTTL != 0 && o.inboxTTL < time.Second:
		return sojourn.Invalid("InboxTTL", "%v is too short; allowed is 1s or more", o.inboxTTL)
	case o.schema != "" && (!plainName.MatchString(o.schema) || len(o.schema) > 48):
		return sojourn.Invalid("Schema", "%.64q is no plain name; allowed are up to 48 bytes of a-z, 0-9 and _", o.schema)
	}
	if err := statistics.ValidDays(o.statistics[0], o.statistics[1]); err != nil {
		return err
	}
	return migration.CheckPrefix(o.prefix)
}

// tables returns the prefix of each table's name, with the schema.
func (o options) tables() string {
	if o.schema == "" {
		return o.prefix
	}
	return o.schema + "." + o.prefix
}
