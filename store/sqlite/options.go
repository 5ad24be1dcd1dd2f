package sqlite

import (
	"cmp"
	"os"
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
	throttlers     map[string]throttle.Throttler
	rules          func(text string) (throttle.Throttler, error)
	maxBytes       int
	clock          func() time.Time // nil: the wall clock, protected against jumps
	relaxed        bool
	inboxTTL       time.Duration // 0: the store's default
	statistics     [2]int        // days of statistics and of histograms; 0: the defaults
	noMigrate      bool
	allowNetworkFS bool
	declared       bool
	lowSpace       int64
	prefix         string               // "": defaultPrefix; see tables
	migrator       bool                 // only migrates the tables, in any version
	more           []sqldb.Migration    // of tests, after the real ones
	sync           func(*os.File) error // of tests; nil: (*os.File).Sync
	checkAtOpen    int64                // of tests; 0: checkAtOpen
	created        func()               // of tests: the owner's file exists and is not locked yet
}

// MaxBytes bounds args, result, response body and checkpoint, each, in bytes: 1 to
// sojourn.MaxMaxBytes, default sojourn.DefaultMaxBytes.
func MaxBytes(n int) Option { return func(o *options) { o.maxBytes = n } }

// Clock replaces the store's clock, for tests that drive time themselves. The protection against
// clock jumps is off then. now is called from several goroutines.
func Clock(now func() time.Time) Option { return func(o *options) { o.clock = now } }

// Relaxed gives up durability for speed: writes acknowledged during the last moments may be lost in
// a power cut or a crash of the operating system, though not in a crash of the process. Status
// shows it as durability "relaxed". All processes on one file should agree.
func Relaxed() Option { return func(o *options) { o.relaxed = true } }

// InboxTTL is the time to live of a response that matches no job: 1 s or more, default the store's
// own.
func InboxTTL(d time.Duration) Option { return func(o *options) { o.inboxTTL = d } }

// KeepStatistics sets how many days of statistics the store keeps, and of their histograms, today
// included: 1 to statistics.MaxDays, 0 for the defaults. Each process that sweeps deletes what its
// own numbers no longer keep, so all processes on one store should agree.
func KeepStatistics(days, histograms int) Option {
	return func(o *options) { o.statistics = [2]int{days, histograms} }
}

// NoMigrate does not change the schema; opening then fails if it is not the newest.
func NoMigrate() Option { return func(o *options) { o.noMigrate = true } }

// DeclaredQueues makes the store take jobs only for queues that were made with DeclareQueue or
// sojourn queue set; others are refused with ErrNotFound. By default the first job that names a
// queue makes it.
func DeclaredQueues() Option { return func(o *options) { o.declared = true } }

// LowSpace refuses new jobs with CodeLowSpace while fewer bytes than this are free on the disk of
// the file, so that stored jobs can run to their end: claims, outcomes and responses are accepted
// as long as the disk takes them. Default 0: no bound. The free space is read once a second at
// most, and unknown on Windows.
func LowSpace(bytes int64) Option { return func(o *options) { o.lowSpace = bytes } }

// AllowNetworkFS opens a file on a network file system all the same. SQLite's locks and shared
// memory do not work reliably there: two machines on one file will corrupt it.
func AllowNetworkFS() Option { return func(o *options) { o.allowNetworkFS = true } }

// Prefix begins the name of every table, so that several instances fit into one file:
// [a-z_][a-z0-9_]*, up to 32 bytes, default "sj_". Instances see nothing of each other. They share
// the file: its disk space, its backups, and its one writer at a time.
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

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

// Valid checks the values of options, without a file. The error is an *sojourn.Error with
// CodeInvalid.
func Valid(list ...Option) error {
	_, err := newOptions(list)
	return err
}

// newOptions applies the options over the defaults and checks the ranges.
func newOptions(list []Option) (options, error) {
	o := options{maxBytes: sojourn.DefaultMaxBytes, prefix: defaultPrefix}
	for _, option := range list {
		option(&o)
	}
	if o.maxBytes < 1 || o.maxBytes > sojourn.MaxMaxBytes {
		return o, sojourn.Invalid("MaxBytes", "%d is out of range; allowed are 1 to %d", o.maxBytes, sojourn.MaxMaxBytes)
	}
	if o.inboxTTL != 0 && o.inboxTTL < time.Second {
		return o, sojourn.Invalid("InboxTTL", "%v is too short; allowed is 1s or more", o.inboxTTL)
	}
	if err := statistics.ValidDays(o.statistics[0], o.statistics[1]); err != nil {
		return o, err
	}
	if o.lowSpace < 0 {
		return o, sojourn.Invalid("LowSpace", "%d is negative", o.lowSpace)
	}
	return o, migration.CheckPrefix(o.prefix)
}

// tables returns the prefix of each table's name.
func (o options) tables() string { return cmp.Or(o.prefix, defaultPrefix) }
