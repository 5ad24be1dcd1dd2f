// Package workcmd has the command "work", which runs jobs with programs and HTTP requests.
package workcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/monitor"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/execjob"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
	"github.com/sojourn-queue/sojourn/worker/metrics"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "work".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const workHelp = `Claims jobs and runs a program for each, until SIGTERM or SIGINT; running programs then have --grace to finish. The store may be a file,
a database or a server.

  sojourn work --kind resize --exec ./resize.sh
  sojourn work --kind resize --concurrency 4 -- python3 resize.py --quick

The program gets the job as JSON on standard input, and as files: $SOJOURN_ARGS, $SOJOURN_RESPONSE (once there is an answer) and
$SOJOURN_CHECKPOINT. It runs in a temporary folder, which is removed afterwards, and its output goes to the job's log. The exit status
decides the outcome of the job:

  exit 0   completed, with the file $SOJOURN_RESULT; the file $SOJOURN_NEXT may list follow-up jobs: [{"kind": "ship"}]
           with the file $SOJOURN_ADVANCE, such as {"queue": "ship"}, the job goes on with its next stage instead
  exit 65  failed, even if attempts remain
  exit 75  run again after a minute, or after the duration in the file $SOJOURN_RETRY_AFTER, such as 90s; not counted as an error
  exit 77  awaiting a response; the file $SOJOURN_AWAIT may configure the wait: {"within": "6h", "keys": ["order-42"]}
  others   an error, retried with backoff; the error text is the end of standard error. With this status and 65,
           the file $SOJOURN_ERROR_DETAIL may have JSON to store with the error

The program and its child processes form a process group. When the job is cancelled, a time limit passes or the lease is lost, the group
gets SIGTERM, and SIGKILL a second later. The environment has only PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_ALL, LC_CTYPE, TZ and the
variables named by --env.

  sojourn work --http
  sojourn enqueue http --args '{"url": "https://bank.example/charges", "body": {"cents": 1999}, "await": true, "within": "6h"}'

With --http it also sends the requests of jobs of the kind http; a program is then optional. 2xx completes the job with the response. If "await" is true,
the job awaits a response instead; the request header Sojourn-Respond-Url has the link for it (--respond-url). Retry-After holds the queue, 5xx is retried, 4xx is final.
Requests go to public addresses only, unless --allow-cidr allows others. $SOJOURN_HTTP_SECRETS, or the file $SOJOURN_HTTP_SECRETS_FILE, has the secrets that
sign requests, each with its hosts: bank.example=whsec_….`

// workFlags are the flags of work.
type workFlags struct {
	kinds, env    []string
	program       string
	timeout       time.Duration
	once, verbose bool
	parents       bool
	o             worker.Options
	call          callFlags
	log           monitor.Log
	metrics       monitor.Metrics
}

func (a *app) command() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{Use: "work {--kind KIND {--exec PROGRAM | -- COMMAND...} | --http}", Short: "run jobs with a program in any language, or by sending HTTP requests", Long: workHelp}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.kinds, "kind", nil, "`KIND` of jobs to run; may be repeated")
	fl.StringVar(&f.program, "exec", "", "the `PROGRAM`; put a command with arguments after --; no shell is involved")
	fl.StringArrayVar(&f.o.Queues, "queue", []string{sojourn.DefaultQueue}, "`QUEUE` to claim from, a pattern such as payments-* or an exclusion such as !payments-test; may be repeated, earlier ones come first")
	fl.IntVar(&f.o.Concurrency, "concurrency", worker.DefaultConcurrency, "maximum total weight of jobs that run at the same time")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit of one run (default none; the job's own time limits apply too)")
	fl.DurationVar(&f.o.Grace, "grace", worker.DefaultGrace, "how long programs may continue after SIGTERM; 0 = not at all")
	fl.DurationVar(&f.o.Lease, "lease", sojourn.DefaultLease, "lease duration, 1s to 1h; it is extended while a program runs, and jobs of a dead worker run elsewhere after it")
	fl.StringArrayVar(&f.env, "env", nil, "`NAME` of an environment variable to pass to programs; may be repeated")
	fl.BoolVar(&f.parents, "parents", false, "give each program the jobs that its job has waited for, with their results, in the file $SOJOURN_PARENTS")
	fl.StringVar(&f.o.RespondURL, "respond-url", "", "public `URL` of \"sojourn webhook\"; programs, and requests with \"await\": true, get response links for their jobs")
	fl.StringVar(&f.o.Name, "name", "", "name of the worker in \"sojourn worker ls\" (default HOST-PID)")
	fl.BoolVar(&f.once, "once", false, "run one ready job and end; exit code 3 if there is none")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for each run")
	f.call.register(fl)
	f.log.Register(fl)
	f.metrics.Register(fl)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return sojourn.Invalid("exec", "%.64q is unexpected; put the command after --", args[0])
		}
		if err := errors.Join(f.log.Validate(), f.metrics.Validate()); err != nil {
			return err
		}
		var program *execjob.Program
		caller, err := a.caller(f.call)
		if err == nil && (caller == nil || f.program != "" || len(args) > 0 || len(f.kinds) > 0) {
			program, err = a.program(f, args)
		}
		if err != nil {
			return err
		}
		err = a.With(func(c *sojourn.Client) error { return a.work(cmd.Context(), c, f, program, caller) })
		if program != nil {
			if closed := program.Close(); err == nil {
				err = closed
			}
		}
		return err
	}
	return cmd
}

// program is the command that works jobs off.
func (a *app) program(f workFlags, args []string) (*execjob.Program, error) {
	switch {
	case f.program == "" && len(args) == 0:
		return nil, sojourn.Invalid("exec", "name a program with --exec, or put a command after --")
	case f.program != "" && len(args) > 0:
		return nil, sojourn.Invalid("exec", "give a program with --exec, or a command after --, not both")
	case len(f.kinds) == 0:
		return nil, sojourn.Invalid("kind", "no kind given; name at least one with --kind")
	case f.program != "":
		args = []string{f.program}
	}
	if f.o.Grace < 0 {
		return nil, sojourn.Invalid("grace", "%v is negative; use 0 or more", f.o.Grace)
	}
	for i, k := range f.kinds {
		if err := sojourn.ValidName("kind", k); err != nil {
			return nil, err
		}
		if slices.Contains(f.kinds[:i], k) || f.call.on && k == httpjob.KindName {
			return nil, sojourn.Invalid("kind", "%q is named twice; name each kind once", k)
		}
	}
	o := execjob.Options{Command: args, Timeout: f.timeout, Parents: f.parents}
	for _, name := range f.env {
		if name == "" || strings.Contains(name, "=") {
			return nil, sojourn.Invalid("env", "%.64q is not the name of a variable; give only the name, so that the value does not appear in the process list", name)
		}
		v, ok := os.LookupEnv(name)
		if !ok {
			return nil, sojourn.Invalid("env", "the variable %.64q is not set; set it, or leave --env out", name)
		}
		o.Env = append(o.Env, name+"="+v)
	}
	return execjob.New(o)
}

func (a *app) work(ctx context.Context, c *sojourn.Client, f workFlags, program *execjob.Program, caller *httpjob.Caller) error {
	f.o.Logger = f.log.Logger(a.App)
	if err := f.metrics.Serve(ctx, f.o.Logger); err != nil {
		return err
	}
	if store.IsServer(a.URL()) {
		f.o.SweepEvery = -1 // a server does it by itself, and lets nobody else without the verb admin
	}
	if f.o.Grace == 0 {
		f.o.Grace = -1 // 0 would be the default
	}
	f.o.Observer = &runLog{a: a, metrics: f.metrics.Metrics, silent: !f.verbose && !f.once}
	w := worker.New(c, f.o)
	for _, k := range f.kinds {
		worker.Handle(w, sojourn.Kind[[]byte]{Name: k, Codec: sojourn.Bytes}, program.Run)
	}
	if caller != nil {
		worker.Handle(w, httpjob.Kind, caller.Run)
		f.kinds = append(f.kinds, httpjob.KindName)
	}
	for _, d := range a.Schedules {
		w.Schedule(d)
	}
	if f.once {
		ran, err := w.RunOnce(ctx)
		if err == nil && !ran {
			err = &sojourn.Error{Code: sojourn.CodeNotFound, Index: -1, Message: "no job of these kinds is ready", Err: sojourn.ErrNotFound}
		}
		return err
	}
	f.o.Logger.Info("working", "worker", w.Name(), "store", a.Shown(), "kinds", f.kinds, "queues", f.o.Queues, "concurrency", f.o.Concurrency)
	err := w.Run(ctx)
	f.o.Logger.Info("stopped")
	if errors.Is(err, sojourn.ErrClosed) {
		return cli.Unusable(err)
	}
	return err
}

// runLog counts all events, and prints each run once its outcome is stored or its lease is lost.
type runLog struct {
	a       *app
	metrics *metrics.Metrics
	silent  bool
	mu      sync.Mutex // a line is one write
}

// Observe implements worker.Observer.
func (l *runLog) Observe(e worker.Event) {
	l.metrics.Observe(e)
	if l.silent || e.Type != worker.EventFinished && e.Type != worker.EventLost {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.a.AsJSON() {
		_ = l.a.JSON(struct {
			ID      sojourn.ID          `json:"id"`
			Kind    string              `json:"kind"`
			Outcome sojourn.OutcomeType `json:"outcome,omitempty"`
			State   string              `json:"state,omitempty"`
			Reason  string              `json:"reason,omitempty"`
			Ran     time.Duration       `json:"ran"`
		}{e.Job, e.Kind, e.Outcome, stateName(e), e.Reason, e.Ran})
		return
	}
	line := fmt.Sprintf("job %d %s: %s", e.Job, e.Kind, stateName(e))
	if e.Reason != "" {
		line += " (" + terminal.Clean(e.Reason) + ")"
	}
	_ = l.a.Printf("%s after %v\n", line, e.Ran.Round(time.Millisecond))
}

func stateName(e worker.Event) string {
	if e.Type == worker.EventLost {
		return "lost"
	}
	return e.State.String()
}
