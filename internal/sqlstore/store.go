package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/archives"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/claim"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/deregister"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/events"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/failure"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/finish"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/joblog"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/operate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/operation"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/question"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/respond"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/schedules"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/statistics"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/tag"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/workflows"
	"github.com/sojourn-queue/sojourn/store/archive"
	"github.com/sojourn-queue/sojourn/store/ask"
	"github.com/sojourn-queue/sojourn/store/config"
	"github.com/sojourn-queue/sojourn/store/event"
	groups "github.com/sojourn-queue/sojourn/store/failure"
	lines "github.com/sojourn-queue/sojourn/store/joblog"
	"github.com/sojourn-queue/sojourn/store/migrate"
	ops "github.com/sojourn-queue/sojourn/store/operation"
	stats "github.com/sojourn-queue/sojourn/store/statistics"
	"github.com/sojourn-queue/sojourn/store/tags"
	"github.com/sojourn-queue/sojourn/store/workers"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Store is a driver.Store over any database behind the seam. Its methods are those of its parts,
// one part for each subject. Safe for concurrent use.
type Store struct {
	*enqueue.Enqueuer
	*finish.Finisher
	*respond.Responder
	*claim.Claimer
	*query.Reader
	*upkeep.Maintainer
	*operate.Operator
	*schedules.Scheduler
	*workflows.Keeper
	*failure.Groups
	*operation.Runner
	*statistics.Recorder
	*events.Follower
	*archives.Archivist
	*tag.Lister
	*deregister.Registrar
	*question.Asker
	*joblog.Writer
	*storeconfig.Settings

	members *member.Counter
	core    *txn.Core
	gates   *gate.Gates
	hub     *wake.Hub
}

var (
	_ workflow.Store = (*Store)(nil)
	_ groups.Store   = (*Store)(nil)
	_ ops.Store      = (*Store)(nil)
	_ stats.Store    = (*Store)(nil)
	_ event.Store    = (*Store)(nil)
	_ archive.Store  = (*Store)(nil)
	_ tags.Store     = (*Store)(nil)
	_ workers.Store  = (*Store)(nil)
	_ ask.Store      = (*Store)(nil)
	_ workers.Leaver = (*Store)(nil)
	_ lines.Store    = (*Store)(nil)
	_ config.Store   = (*Store)(nil)
)

// Config is the configuration of a store by its database package.
type Config = txn.Config

// New makes a store over db, whose schema must be up to date. It reads the instance's name and
// secret, and announces the throttlers of cfg. If it fails, the caller closes db.
func New(ctx context.Context, db sqldb.DB, cfg Config) (*Store, error) {
	if change := tuned.Load(); change != nil {
		(*change)(&cfg)
	}
	c := &txn.Core{DB: db, Cfg: cfg, Done: make(chan struct{})}
	if err := setDefaults(&c.Cfg); err != nil {
		return nil, err
	}
	c.Clock = clock.Clock{Source: clock.Source{Wall: cfg.Now, Elapsed: cfg.Elapsed, Driven: cfg.Driven, Lone: cfg.LoneClock, Started: cfg.Now()}}
	s := newStore(c)
	if err := s.readMeta(ctx); err != nil {
		return nil, err
	}
	if err := s.Announce(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// setDefaults replaces zeros by the defaults, and checks the rest.
func setDefaults(cfg *Config) error {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, sojourn.DefaultMaxBytes)
	cfg.InboxTTL = cmp.Or(cfg.InboxTTL, sojourn.DefaultInboxTTL)
	cfg.Prefix = cmp.Or(cfg.Prefix, "sj_")
	cfg.Poll = cmp.Or(cfg.Poll, txn.PollEvery)
	cfg.Runners = cmp.Or(cfg.Runners, 1)
	cfg.MaxRows = cmp.Or(cfg.MaxRows, 1000)
	cfg.StatisticsDays = cmp.Or(cfg.StatisticsDays, stats.DefaultDays)
	cfg.HistogramDays = cmp.Or(cfg.HistogramDays, stats.DefaultHistogramDays)
	if cfg.MaxBytes < 1 || cfg.MaxBytes > sojourn.MaxMaxBytes {
		return sojourn.Invalid("max_bytes", "%d is out of range: 1 to %d", cfg.MaxBytes, sojourn.MaxMaxBytes)
	}
	if cfg.InboxTTL < 0 || cfg.InboxTTL > sojourn.MaxHorizon {
		return sojourn.Invalid("inbox_ttl", "%v is out of range: up to 10 years, 0 for 24h", cfg.InboxTTL)
	}
	return nil
}

// newStore connects the parts of a store. Each part knows only parts before it.
func newStore(c *txn.Core) *Store {
	s := &Store{core: c, gates: gate.NewGates(c.Cfg), hub: wake.NewHub(c)}
	s.Enqueuer = enqueue.NewEnqueuer(c)
	s.members = member.New(c, s.Enqueuer)
	s.Finisher = finish.NewFinisher(c, s.gates, s.Enqueuer, s.members)
	s.Responder = respond.NewResponder(c)
	s.Claimer = claim.NewClaimer(c, s.gates, s.hub, s.Finisher)
	s.Reader = query.New(c, s.gates, s.hub)
	s.Scheduler = schedules.New(c, s.Enqueuer)
	s.Maintainer = upkeep.New(c, s.hub, s.Reader, s.Scheduler)
	s.Operator = operate.New(c, s.gates, s.hub, s.Maintainer, s.members)
	s.Keeper = workflows.New(c, s.hub, s.Enqueuer, s.members)
	s.Groups = failure.New(c)
	s.Maintainer.Continue = s.Keeper.SweepWorkflows
	s.Maintainer.FoldFailures = s.Groups.SweepFailures
	s.Recorder = statistics.New(c)
	s.Maintainer.FoldStatistics = s.Recorder.SweepStatistics
	s.Follower = events.New(c, s.hub, s.Maintainer)
	s.Maintainer.SweepEvents = s.Follower.SweepEvents
	s.Archivist = archives.New(c, s.Maintainer)
	s.Lister = tag.NewLister(c)
	s.Registrar = deregister.New(c, s.hub)
	s.Asker = question.NewAsker(c)
	s.Writer = joblog.NewWriter(c)
	s.Settings = storeconfig.New(c)
	s.Runner = operation.New(c, s.members)
	s.Maintainer.Operate = s.Runner.SweepOperations
	if v, ok := c.DB.(sqldb.Verdicts); ok {
		v.OnDeath(s.Maintainer.EndDead)
	}
	c.Lanes.All = groupcommit.New(c.Cfg.Runners, c.Cfg.MaxRows, s.commit)
	if c.Lanes.Ends = c.Lanes.All; c.Cfg.Enders > 0 && !c.Cfg.Without.FinishLane {
		c.Lanes.Ends = groupcommit.New(c.Cfg.Enders, c.Cfg.MaxRows, s.commit)
	}
	if c.Cfg.Without.BatchingDelay {
		c.Lanes.All.WithoutDelay()
		c.Lanes.Ends.WithoutDelay()
	}
	return s
}

// readMeta reads the instance's name and secret, or draws them for a new instance.
func (s *Store) readMeta(ctx context.Context) error {
	return s.core.DB.Update(ctx, func(c sqldb.Conn) error {
		// Check the schema again, because another process may have migrated since this one read it.
		// Where one transaction writes at a time, it cannot migrate in between now.
		var schema migrate.Schema
		if err := migration.New(s.core.DB, s.core.Cfg.Prefix, s.core.Cfg.Now).ReadSchema(c, &schema); err != nil {
			return err
		}
		if err := migration.Fits(schema, "the store"); err != nil {
			return err
		}
		t, err := s.core.Begin(c)
		if err != nil {
			return err
		}
		found := map[string]string{}
		read := func() error {
			for _, name := range []string{"instance", "secret", clock.MetaName} {
				if err := t.Read(txn.QMeta, func(r sqldb.Row) error { found[name] = r.Text(0); return nil }, name); err != nil {
					return err
				}
			}
			return nil
		}
		if err := read(); err != nil {
			return err
		}
		if found["instance"] == "" {
			key := make([]byte, 32)
			rand.Read(key) // never fails, says crypto/rand
			for name, value := range map[string]string{"instance": rand.Text()[:8], "secret": base64.StdEncoding.EncodeToString(key),
				clock.MetaName: clock.Record{Mark: t.Now}.String(), counters.MetaName: counters.Maintained} {
				if _, err := t.Write(txn.QInitMeta, name, value); err != nil {
					return err
				}
			}
			if err := read(); err != nil { // if two processes open a new instance at once, both use the values that were stored first
				return err
			}
		}
		s.core.Instance = found["instance"]
		s.core.Clock.Open(clock.ParseRecord(found[clock.MetaName]))
		if s.core.Secret, err = base64.StdEncoding.DecodeString(found["secret"]); err != nil {
			return err
		}
		return counters.Open(t)
	})
}

// Nudge makes every blocked Claim and Find read again, e.g. after a driven clock has moved.
func (s *Store) Nudge() { s.hub.WakeAll() }

// OwnerID names this process; see driver.Owner. It is empty on databases that do not track their
// processes.
func (s *Store) OwnerID() string {
	if o, ok := s.core.DB.(sqldb.Owners); ok {
		return o.OwnerID()
	}
	return ""
}

// Close refuses new calls, waits for the transaction under way and closes the database. Blocked
// calls return ErrClosed.
func (s *Store) Close() error {
	if !s.core.Close() {
		return nil // closed before
	}
	s.core.Lanes.Close()
	return s.core.DB.Close()
}

// Status describes the store.
func (s *Store) Status(ctx context.Context) (sojourn.Status, error) {
	d, err := s.core.DB.Describe(ctx)
	if err != nil {
		return sojourn.Status{}, s.core.Failed(err)
	}
	st := sojourn.Status{Store: d.Name, Location: d.Location, Version: d.Version, Durability: d.Durability, Instance: s.core.Instance,
		MaxBytes: s.core.Cfg.MaxBytes, Bytes: d.Bytes, WALBytes: d.WALBytes, Commits: d.Commits}
	if signals, ok := s.core.DB.(sqldb.Signaler); ok {
		st.Wakeups = signals.Signals() // after Describe, which tries it out
	}
	if v, ok := s.core.DB.(sqldb.Verdicts); ok {
		st.DeadLeases = v.DeadLeases()
	} else if s.OwnerID() != "" {
		st.DeadLeases = sqldb.LeasesEndAtOnce
	}
	err = s.core.View(ctx, func(t *txn.Tx) error {
		st.Now, st.Clock = jobrow.Time(t.Now), s.core.Clock.Describe()
		var schema migrate.Schema
		if err := migration.New(s.core.DB, s.core.Cfg.Prefix, s.core.Cfg.Now).ReadSchema(t, &schema); err != nil {
			return err
		}
		st.Schema = schema.Found
		return migration.Fits(schema, "the store") // it may have been migrated since it was opened
	})
	return st, err
}
