// Package export exports the final jobs of an archive to its target: files with a line of JSON for
// each job, a table of the store's database, or a webhook. See package archive.
//
// A file gets each exported generation of a job exactly once, also if the program is killed: a
// batch is written and synced before it is recorded together with the length of the file, and what
// is behind that length is cut off before the next batch. A webhook gets it at least once.
package export

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/store/archive"
)

const (
	// DefaultMaxFile is the length in bytes at which a file is complete: 256 MiB.
	DefaultMaxFile = 256 << 20
	// DefaultLease is how long an archive waits for a program that has died.
	DefaultLease = 30 * time.Second
	// DefaultPoll is the pause after a pass through the final jobs that has found none.
	DefaultPoll = time.Second
	// FullEvery is the time after which a pass begins with the oldest job again. It finds a job
	// whose end was committed more than a minute late.
	FullEvery = time.Hour
)

const (
	batch      = 500
	firstPause = 100 * time.Millisecond // after errors
	lastPause  = 10 * time.Second
	endWithin  = 10 * time.Second // for what is recorded after the context has ended
)

// Options are the options of Run. The zero value has the defaults.
type Options struct {
	Once bool // end when a whole pass has found no job; errors are returned at once
	// MaxFile is the length in bytes at which a file is complete, at least 1; it can be exceeded by
	// one batch. A file is also complete at the end of its day in UTC.
	MaxFile int64
	Lease   time.Duration // archive.MinLease to archive.MaxLease
	Poll    time.Duration // more than 0
	Log     *slog.Logger  // gets errors after which Run tries again; nil: slog.Default
	Client  *http.Client  // sends to the webhook; it must not follow redirects. nil: one with a timeout of 10 s
}

// Run exports an archive until ctx ends, which is no error, or without Once for ever. It tries
// again after errors of the store and of the target, with pauses, and while another program
// exports the archive. It returns an error if the store was closed, if the archive does not exist
// or may not be read, or if its files are not those that the store has recorded.
func Run(ctx context.Context, c *sojourn.Client, name string, o Options) error {
	o.MaxFile, o.Lease, o.Poll = cmp.Or(o.MaxFile, DefaultMaxFile), cmp.Or(o.Lease, DefaultLease), cmp.Or(o.Poll, DefaultPoll)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MaxFile < 1 || o.Poll < 0 {
		return sojourn.Invalid("options", "the length of a file and the pause are positive")
	}
	r := &runner{Options: o, archives: archive.Of(c), name: name, id: rand.Text()}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		worked, err := r.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || o.Once || isFinal(err):
			return err
		case worked:
			pause = firstPause
		}
		o.Log.WarnContext(ctx, "an archive is not exported; trying again", "archive", name, "error", err, "pause", pause)
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// finalError is an error that stays until a person acts.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool {
	code := sojourn.ErrorCode(err)
	_, final := errors.AsType[finalError](err)
	return final || errors.Is(err, sojourn.ErrClosed) || code == sojourn.CodeInvalid || code == sojourn.CodeNotFound || code == access.CodeScope
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// target is where jobs go. It belongs to one session.
type target interface {
	// recover removes everything behind the recorded place, and goes on there.
	recover(l archive.Lease) error
	// export stores jobs durably. It adds to the record the place that it has reached.
	export(ctx context.Context, jobs []archive.Job, r *archive.Record) error
	// idle is called after a pass.
	idle() error
	close()
}

// runner exports one archive.
type runner struct {
	Options
	archives archive.Archives
	name, id string
}

// session exports under one lease. worked: it has got the lease.
func (r *runner) session(ctx context.Context) (worked bool, err error) {
	t, id, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	defer t.close()
	l, err := r.archives.Lease(ctx, r.name, id, r.Lease)
	if err != nil {
		return false, err
	}
	if err = t.recover(l); err == nil {
		s := &session{runner: r, target: t, epoch: l.Epoch, noted: time.Now(), full: true}
		err = s.run(ctx)
	}
	if sojourn.ErrorCode(err) == sojourn.CodeLeaseLost {
		return true, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	return true, errors.Join(err, r.archives.Record(end, archive.Record{Archive: r.name, Epoch: l.Epoch})) // else the lease expires
}

// open opens the target of the archive, and names the runner.
func (r *runner) open(ctx context.Context) (t target, id string, err error) {
	all, err := r.archives.List(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, a := range all {
		kind, to, err := a.Definition().Target()
		switch {
		case a.Name != r.name:
			continue
		case err != nil:
			return nil, "", err
		case kind == archive.ToFile:
			host, err := os.Hostname()
			if err != nil {
				return nil, "", err
			}
			t, err := openFiles(to, r.name, r.MaxFile)
			// Only one process has the lock of the files, so the one before of this name is dead.
			return t, cut(host + ":" + to), err
		case kind == archive.ToTable:
			return table{}, r.id, nil
		}
		t, err := openWebhook(r.Options, a)
		return t, r.id, err
	}
	return nil, "", sojourn.NotFound("there is no archive %.64q; add it first", r.name)
}

// cut shortens the name of a runner to what the store takes.
func cut(id string) string { return id[:min(len(id), sojourn.MaxKey)] }

// session is the work under one lease.
type session struct {
	*runner
	target target
	epoch  int64
	noted  time.Time // when the lease was extended last
	full   bool
	fullAt time.Time // when the last full pass began
}

func (s *session) run(ctx context.Context) error {
	for {
		began := time.Now()
		found, err := s.pass(ctx)
		if err != nil {
			return err
		}
		if s.full {
			s.fullAt = began
		}
		if s.Once && found == 0 && s.full {
			return s.target.idle()
		}
		s.full = s.Once || time.Since(s.fullAt) >= FullEvery
		if err := s.target.idle(); err != nil {
			return err
		}
		if found == 0 && !sleep(ctx, s.Poll) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// pass exports the jobs that are not exported, and returns how many they were.
func (s *session) pass(ctx context.Context) (found int, err error) {
	var through time.Time
	for r := (archive.Read{Archive: s.name, Full: s.full, Limit: batch}); ; {
		page, err := s.archives.Read(ctx, r)
		if err != nil {
			return found, err
		}
		if through.IsZero() {
			through = page.At
		}
		rec := archive.Record{Archive: s.name, Epoch: s.epoch, Lease: s.Lease}
		for _, j := range page.Jobs {
			rec.Jobs = append(rec.Jobs, archive.Exported{Job: j.ID, Generation: j.Generation})
		}
		if len(page.Jobs) > 0 {
			if err := s.target.export(ctx, page.Jobs, &rec); err != nil {
				return found, err
			}
		}
		if page.Next == "" {
			rec.Through = through
		}
		// An idle archive is written once in a while only.
		if len(rec.Jobs) > 0 || found > 0 && page.Next == "" || time.Since(s.noted) > s.Lease/3 {
			if err := s.record(ctx, rec); err != nil {
				return found, err
			}
		}
		found += len(page.Jobs)
		if page.Next == "" || ctx.Err() != nil {
			return found, ctx.Err()
		}
		r.After = page.Next
	}
}

// record records a batch also if the context ends meanwhile.
func (s *session) record(ctx context.Context, r archive.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	at := time.Now()
	err := s.archives.Record(ctx, r)
	if err == nil {
		s.noted = at
	}
	return err
}

// table is the table of the store's database: the record itself writes it.
type table struct{}

func (table) recover(archive.Lease) error { return nil }
func (table) idle() error                 { return nil }
func (table) close()                      {}

func (table) export(_ context.Context, jobs []archive.Job, r *archive.Record) error {
	for i, j := range jobs {
		text, err := jsonform.Marshal(j)
		if err != nil {
			return err
		}
		r.Jobs[i].Page = text
	}
	return nil
}
