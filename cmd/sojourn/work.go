package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/execjob"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
)

const workHelp = `Claims jobs and runs a program for each, until SIGTERM or SIGINT; then it lets them go on for --grace. The store is a file, a database
or a server alike.

  sojourn work --kind resize --exec ./resize.sh
  sojourn work --kind resize --concurrency 4 -- python3 resize.py --quick

The program gets the job as JSON on standard input, and as files: $SOJOURN_ARGS, $SOJOURN_RESPONSE (once there is an answer) and
$SOJOURN_CHECKPOINT. It runs in a folder of its own, which is removed afterwards, and what it prints goes to the job's log. How it ends says
what becomes of the job:

  exit 0   completed, with the file $SOJOURN_RESULT
  exit 65  failed, whatever attempts remain
  exit 75  run again after a minute, or what the file $SOJOURN_RETRY_AFTER says, such as 90s; counts as no error
  exit 77  parked until the answer comes; the file $SOJOURN_AWAIT may say more: {"within": "6h", "keys": ["order-42"]}
  others   an error, retried with backoff, with the end of standard error as its text

It and all that it starts is a process group, which gets SIGTERM, and SIGKILL a second later, when the job is cancelled, a time is over or the
lease is lost. Of the environment it gets PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_ALL, LC_CTYPE, TZ and what --env names.

  sojourn work --http
  sojourn enqueue http --args '{"url": "https://bank.example/charges", "body": {"cents": 1999}, "await": true, "within": "6h"}'

With --http it sends the requests of jobs of the kind http, with a program or without. 2xx completes the job with the response, or parks it if "await" is
true; then the header Sojourn-Respond-Url has the link that takes the answer (--respond-url). Retry-After holds the queue, 5xx is retried, 4xx is final.
Requests go to public addresses only, unless --allow-cidr names others. $SOJOURN_HTTP_SECRETS, or the file $SOJOURN_HTTP_SECRETS_FILE, signs them:
bank.example=whsec_…, with the hosts that the secret is for.`

// workFlags are the flags of work.
type workFlags struct {
	kinds, env    []string
	program       string
	timeout       time.Duration
	once, verbose bool
	o             worker.Options
	call          callFlags
}

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{Use: "work {--kind KIND {--exec PROGRAM | -- COMMAND...} | --http}", Short: "work jobs off with a program in any language, or by requests", Long: workHelp}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.kinds, "kind", nil, "`KIND` of the jobs; may be repeated")
	fl.StringVar(&f.program, "exec", "", "the `PROGRAM`; one with arguments stands behind --")
	fl.StringArrayVar(&f.o.Queues, "queue", []string{sojourn.DefaultQueue}, "`QUEUE` to take jobs from; may be repeated, the first comes first")
	fl.IntVar(&f.o.Concurrency, "concurrency", worker.DefaultConcurrency, "how many run at a time, as the sum of their weights")
	fl.DurationVar(&f.timeout, "timeout", 0, "of one run (default none; the job's own clocks count too)")
	fl.DurationVar(&f.o.Grace, "grace", worker.DefaultGrace, "how long programs may go on after SIGTERM")
	fl.DurationVar(&f.o.Lease, "lease", sojourn.DefaultLease, "after which the jobs of a worker that is dead go to others, 1s to 1h")
	fl.StringArrayVar(&f.env, "env", nil, "`NAME` of a variable that programs get too; may be repeated")
	fl.StringVar(&f.o.RespondURL, "respond-url", "", "`URL` where \"sojourn webhook\" is reached from outside: programs get links that answer their jobs")
	fl.StringVar(&f.o.Name, "name", "", "what the worker is called in the list of workers (default HOST-PID)")
	fl.BoolVar(&f.once, "once", false, "run one job that is ready and end; exit code 3 if there is none")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "a line for each run on standard output")
	f.call.register(fl)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return sojourn.Invalid("exec", "%.64q: put the command behind --", args[0])
		}
		var program *execjob.Program
		caller, err := a.caller(f.call)
		if err == nil && (caller == nil || f.program != "" || len(args) > 0 || len(f.kinds) > 0) {
			program, err = a.program(f, args)
		}
		if err != nil {
			return err
		}
		err = a.with(func(c *sojourn.Client) error { return a.work(cmd.Context(), c, f, program, caller) })
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
		return nil, sojourn.Invalid("exec", "name a program with --exec, or a command behind --")
	case f.program != "" && len(args) > 0:
		return nil, sojourn.Invalid("exec", "give the program with --exec, or with its arguments behind --, not both")
	case len(f.kinds) == 0:
		return nil, sojourn.Invalid("kind", "name at least one")
	case f.program != "":
		args = []string{f.program}
	}
	if f.o.Grace < 0 {
		return nil, sojourn.Invalid("grace", "%v is less than nothing", f.o.Grace)
	}
	for i, k := range f.kinds {
		if err := sojourn.ValidName("kind", k); err != nil {
			return nil, err
		}
		if slices.Contains(f.kinds[:i], k) || f.call.on && k == httpjob.KindName {
			return nil, sojourn.Invalid("kind", "%q is named twice", k)
		}
	}
	o := execjob.Options{Command: args, Timeout: f.timeout}
	for _, name := range f.env {
		if name == "" || strings.Contains(name, "=") {
			return nil, sojourn.Invalid("env", "%.64q: give the name of a variable, so that its value does not show in the list of processes", name)
		}
		v, ok := os.LookupEnv(name)
		if !ok {
			return nil, sojourn.Invalid("env", "%.64q is not set", name)
		}
		o.Env = append(o.Env, name+"="+v)
	}
	return execjob.New(o)
}

func (a *app) work(ctx context.Context, c *sojourn.Client, f workFlags, program *execjob.Program, caller *httpjob.Caller) error {
	f.o.Logger = slog.New(slog.NewTextHandler(a.err, nil))
	if store.IsServer(a.url()) {
		f.o.SweepEvery = -1 // a server does it by itself, and lets nobody else without the verb admin
	}
	if f.o.Grace == 0 {
		f.o.Grace = -1 // 0 would be the default
	}
	if f.verbose || f.once {
		f.o.Observer = &runLog{a: a}
	}
	w := worker.New(c, f.o)
	for _, k := range f.kinds {
		worker.Handle(w, sojourn.Kind[[]byte]{Name: k, Codec: sojourn.Bytes{}}, program.Run)
	}
	if caller != nil {
		worker.Handle(w, httpjob.Kind, caller.Run)
		f.kinds = append(f.kinds, httpjob.KindName)
	}
	if f.once {
		ran, err := w.RunOnce(ctx)
		if err == nil && !ran {
			err = &sojourn.Error{Code: sojourn.CodeNotFound, Index: -1, Message: "no job of these kinds is ready", Err: sojourn.ErrNotFound}
		}
		return err
	}
	f.o.Logger.Info("working", "worker", w.Name(), "store", a.shown(), "kinds", f.kinds, "queues", f.o.Queues, "concurrency", f.o.Concurrency)
	err := w.Run(ctx)
	f.o.Logger.Info("stopped")
	if errors.Is(err, sojourn.ErrClosed) {
		return &unusableError{err}
	}
	return err
}

// runLog shows each run when the store has what came of it.
type runLog struct {
	a  *app
	mu sync.Mutex // a line is one write
}

// Observe implements worker.Observer.
func (l *runLog) Observe(e worker.Event) {
	if e.Type != worker.EventFinished && e.Type != worker.EventLost {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.a.asJSON() {
		_ = l.a.json(struct {
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
		line += " (" + clean(e.Reason) + ")"
	}
	_ = l.a.printf("%s after %v\n", line, e.Ran.Round(time.Millisecond))
}

func stateName(e worker.Event) string {
	if e.Type == worker.EventLost {
		return "lost"
	}
	return e.State.String()
}
