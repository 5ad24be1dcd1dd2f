package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// Run plays the demo on a store until ctx ends or cfg.For is over, drains, and compares the store
// with the ledger. It continues an earlier run with the same store and Path, however that ended.
// One Run at a time may use a Path. view, if not nil, is called at most four times a second, by one
// goroutine. The error is about the run itself; losses of the store are in the Report.
func Run(ctx context.Context, c *sojourn.Client, cfg Config, view func(Snapshot)) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	s, err := set(ctx, c, cfg)
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	if err := s.play(ctx, view); err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	r, err := audit(ctx, c, s.ledger)
	r.EnqueueMS, r.WaitMS = s.stats.enqueues.percentiles(), s.stats.waits.percentiles()
	r.Gateway, r.Seed, r.Partners = s.gateway.snapshot(), cfg.Seed, s.traded()
	return r, err
}

// stage is everything that a run needs.
type stage struct {
	cfg      Config
	client   *sojourn.Client
	ledger   *ledger
	stats    *stats
	gateway  *gateway
	shop     *shop
	wires    []Wire
	partners []*partner
	http     *http.Client
	servers  []*http.Server
	store    string
	began    time.Time
	draining atomic.Bool
	failed   chan error // the first error that ends the run
}

// set builds the stage. Nothing happens on it yet, but its doors are open.
func set(ctx context.Context, c *sojourn.Client, cfg Config) (_ *stage, err error) {
	s := &stage{cfg: cfg, client: c, stats: &stats{}, began: time.Now(), failed: make(chan error, 1),
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, q := range queues() {
		if err := keepAll(ctx, c, q); err != nil {
			return nil, err
		}
	}
	status, err := c.Store().Status(ctx)
	if err != nil {
		return nil, err
	}
	s.store = describe(status)
	if s.ledger, err = openLedger(cfg.Path + ".ledger"); err != nil {
		return nil, err
	}
	hooks, err := s.serve(&receiver{client: c, drops: cfg.drops, stats: s.stats})
	if err != nil {
		return nil, err
	}
	if s.gateway, err = openGateway(cfg.Path+".gateway", cfg, postTo(s.http, hooks)); err != nil {
		return nil, err
	}
	charges, err := s.serve(s.gateway)
	if err != nil {
		return nil, err
	}
	s.shop = &shop{cfg: cfg, client: c, ledger: s.ledger, stats: s.stats, http: s.http, gateway: charges, began: s.began}
	s.shop.gaps, s.shop.upcoming = s.ledger.open()
	return s, s.wire()
}

// wire starts the brokers and sets up the partner of each.
func (s *stage) wire() (err error) {
	if s.cfg.Wires == nil {
		return nil
	}
	if s.wires, err = s.cfg.Wires(s.cfg.Path); err != nil {
		return err
	}
	for _, w := range s.wires {
		i := slices.IndexFunc(trades, func(t trade) bool { return t.over == w.Name() })
		if i < 0 {
			return fmt.Errorf("nobody is at the other end of %s", w.Name())
		}
		p := &partner{trade: trades[i], wire: w, cfg: s.cfg, stats: s.stats, ledger: s.ledger, logger: s.logger()}
		s.partners, s.shop.trades = append(s.partners, p), append(s.shop.trades, p.trade)
	}
	return nil
}

// traded returns the report of each partner.
func (s *stage) traded() []PartnerReport {
	all := make([]PartnerReport, len(s.partners))
	for i, p := range s.partners {
		all[i] = s.ledger.over(p.over, p.kind.Name)
		all[i].Queue = p.kind.Queue
	}
	return all
}

func (s *stage) logger() *slog.Logger {
	if s.cfg.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.cfg.Logger
}

// queues are those of all kinds, in the order in which the worker looks at them.
func queues() []string {
	names := []string{queue}
	for _, t := range trades {
		names = append(names, t.kind.Queue)
	}
	return names
}

// keepAll turns retention off: the ledger never forgets, so the store must not either.
func keepAll(ctx context.Context, c *sojourn.Client, queue string) error {
	var q sojourn.QueueSettings
	have, err := c.Store().Queues(ctx, queue)
	if err != nil && !errors.Is(err, sojourn.ErrNotFound) {
		return err
	}
	if len(have) > 0 {
		q = have[0].Settings
	}
	q.Retention = sojourn.Retention{Age: -1, Count: -1, FailedAge: -1, FailedCount: -1}
	return c.Queues().Set(ctx, queue, q)
}

// Alone refuses a store in which other jobs than the demo's are: it was perhaps not meant for the
// demo, which does in the queues "payments", "exports" and "parcels" as it likes. The error is an
// *sojourn.Error with CodeConflict.
func Alone(ctx context.Context, c *sojourn.Client) error {
	jobs, err := c.Store().Find(ctx, sojourn.Filter{Limit: sojourn.MaxFind})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if !slices.Contains(j.Tags, tag) {
			return sojourn.Conflict("SOJOURN_URL names a store with jobs of others; to run the demo in it, name it with --store, else unset SOJOURN_URL")
		}
	}
	return nil
}

// serve opens a server on a free port of loopback and gives its URL.
func (s *stage) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.servers = append(s.servers, srv)
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	}()
	return "http://" + l.Addr().String(), nil
}

func (s *stage) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first one counts
	}
}

// play runs the demo and drains its stages in the order of the data flow, so that work in progress
// can still reach the next stage.
func (s *stage) play(ctx context.Context, view func(Snapshot)) error {
	if s.cfg.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.For)
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.gateway.start(s.acknowledge, s.fail)
	finishWork, err := s.work(ctx)
	if err != nil {
		return err
	}
	var clerks sync.WaitGroup
	for range s.cfg.Clerks {
		clerks.Go(func() {
			if err := s.shop.clerk(ctx); err != nil {
				s.fail(fmt.Errorf("enqueue: %w", err))
			}
		})
	}
	closeView := s.watch(view)

	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.draining.Store(true)
	stop()
	clerks.Wait()
	s.shop.withdrawals.Wait()
	finishWork()
	s.gateway.stop()
	s.hangUp()
	closeView()
	if err == nil {
		select {
		case err = <-s.failed:
		default:
		}
	}
	return err
}

// work starts the worker. It returns a function that drains it.
func (s *stage) work(ctx context.Context) (drain func(), err error) {
	// A short lease: on a server it is what the jobs of a killed demo wait for.
	w := worker.New(s.client, worker.Options{Concurrency: s.cfg.Workers, Queues: queues(), Logger: slog.New(withoutFailures{s.logger().Handler()}), Lease: 5 * time.Second})
	worker.Handle(w, chargeCard, s.shop.handle)
	for _, p := range s.partners {
		if err := p.start(w, s.client, s.fail); err != nil {
			s.hangUp()
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("worker: %w", err))
		}
	}()
	return func() {
		stop()
		<-done
	}, nil
}

// hangUp stops the partners.
func (s *stage) hangUp() {
	for _, p := range s.partners {
		p.stop()
	}
}

// acknowledge notes that a message has got its 2xx.
func (s *stage) acknowledge(id string, outcome sojourn.ResponseOutcome) error {
	return s.ledger.write(entry{Answer: id, Outcome: outcome})
}

// watch shows snapshots until the function it returns is called, which shows a last one.
func (s *stage) watch(view func(Snapshot)) (end func()) {
	if view == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(redraw)
		defer t.Stop()
		var r rates
		for last := false; ; {
			view(s.snapshot(&r))
			if last {
				return
			}
			select {
			case <-over:
				last = true
			case <-t.C:
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.http.CloseIdleConnections() // first: a server would wait 5 s for the first request on a connection that was opened ahead
	for _, srv := range s.servers {
		if srv.Shutdown(ctx) != nil {
			srv.Close() // requests that outlast this are the demo's own
		}
	}
	for _, w := range s.wires {
		w.Close()
	}
	if s.gateway != nil {
		s.gateway.journal.close()
	}
	if s.ledger != nil {
		s.ledger.journal.close()
	}
}
