// Package execjob runs jobs as programs: one run of a command is one step of a job. It needs Unix.
//
//	program, err := execjob.New(execjob.Options{Command: []string{"./charge.sh"}})
//	worker.Handle(w, sojourn.Kind[[]byte]{Name: "charge_card", Codec: sojourn.Bytes}, program.Run)
//
// The program gets the job as JSON on its standard input, and its parts as files; environment
// variables have their names (see input.go for both). It runs in a folder of its own, which is
// removed afterwards. Its exit status decides the outcome of the job, see [Program.Run]. Its output
// goes to the job's log.
//
// It is the leader of a process group. No process of the group outlives the step: when the program
// has ended, the rest of the group is killed, and when the context of the step ends, the group gets
// SIGTERM and after [KillAfter] SIGKILL. When the worker itself is killed, a guard shell kills the
// groups (watchman.go), and Linux kills the programs. A process that leaves its group (setsid) is
// not tracked.
package execjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// The exit statuses that mean something. 0 completes the job; all others are errors, which the
// job's retry policy counts.
const (
	ExitAbort = 65 // EX_DATAERR: the job fails, even if attempts remain
	ExitRetry = 75 // EX_TEMPFAIL: run it again later; counts as no error
	ExitAwait = 77 // park the job until a response comes
)

const (
	// DefaultRetryAfter is the delay of a job after ExitRetry, if the program sets none.
	DefaultRetryAfter = time.Minute
	// KillAfter is how long a process group may take to end after SIGTERM. It is shorter than the
	// time a worker has after its grace.
	KillAfter = time.Second
	// MaxTail is how many bytes of the end of standard error become part of an error's text.
	MaxTail = 4 << 10

	// readLast bounds the time for reading the rest of the pipes of a group that has ended, in case
	// a process outside the group holds them open.
	readLast = 500 * time.Millisecond
	saveTime = time.Second // for a checkpoint, when the step has ended
	// lookEvery is the interval at which a running program's checkpoint is checked.
	lookEvery = time.Second
)

// Reasons of errors. A program that ends with another status n has the reason exit_n.
const (
	ReasonStart  = "exec_start"  // the program could not be started
	ReasonSignal = "exec_signal" // a signal has ended it
	ReasonOutput = "exec_output" // its output files cannot be read
)

// Options of a Program.
type Options struct {
	// Command is the program and its arguments. A name without a slash is looked for in PATH, now;
	// a relative one counts from the present folder.
	Command []string
	// Timeout bounds one run. 0 = only the job's own clocks do.
	Timeout time.Duration
	// Env are variables, as NAME=VALUE, that the program gets besides those of [Passed] and its
	// own.
	Env []string
	// Parents gives each program the jobs that its job has waited for, with their results, in the
	// file $SOJOURN_PARENTS and on standard input. It costs one more read for each run.
	Parents bool
	// Folder is where the folders of runs are made. Default: os.TempDir().
	Folder string
}

// Program runs a command for jobs. It is safe for concurrent use.
type Program struct {
	o     Options
	path  string // absolute
	watch watchman
}

// New checks that the command can be run. Its errors are *sojourn.Error with CodeInvalid.
func New(o Options) (*Program, error) {
	if !groups {
		return nil, sojourn.Invalid("exec", "needs process groups, which this system has none of: run the worker on Unix, or write it with an SDK")
	}
	if _, err := os.Stat(shell); err != nil {
		return nil, sojourn.Invalid("exec", "needs %s, which ends the programs if the worker is killed", shell)
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, sojourn.Invalid("exec", "name a program")
	}
	if o.Timeout < 0 || o.Timeout > sojourn.MaxHorizon {
		return nil, sojourn.Invalid("timeout", "%v is out of range: 0 (none) to 10 years", o.Timeout)
	}
	path, err := exec.LookPath(o.Command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, sojourn.Invalid("exec", "%.255q is not executable: chmod +x it", o.Command[0])
	case errors.Is(err, exec.ErrNotFound):
		return nil, sojourn.Invalid("exec", "%.255q is not in PATH: a program of the present folder is ./NAME", o.Command[0])
	case err != nil:
		return nil, sojourn.Invalid("exec", "%.255q cannot be run: %v", o.Command[0], errors.Unwrap(err))
	}
	return &Program{o: o, path: path, watch: watchman{parent: o.Folder, live: map[int]bool{}}}, nil
}

// Close ends the running programs, and the shell that waits for the end of this process. A Program
// that has run no command since its last Close needs no Close.
func (p *Program) Close() error {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	return p.watch.stop()
}

// Run runs the command for one step of job; it is the handler of a kind. Standard output and
// standard error go to the job's log, line by line.
//
//	exit 0             completed, with the content of the file $SOJOURN_RESULT; a file $SOJOURN_NEXT, with a list of
//	                   jobs as in the HTTP API, enqueues them in the same transaction; with a file $SOJOURN_ADVANCE,
//	                   such as {"queue": "ship"}, the job goes on with its next stage instead
//	exit 65            failed, even if attempts remain; the file $SOJOURN_RESULT is stored as its details
//	exit 75            run again, after the delay in $SOJOURN_RETRY_AFTER (a file); no error
//	exit 77            awaiting, with the wait in the file $SOJOURN_AWAIT, such as {"within": "6h"}; the next run has the answer
//	anything else      an error with the reason exit_N and the end of standard error as its text
//
// The file $SOJOURN_CHECKPOINT is stored, if it was changed and the job is not completed; while the
// program runs, within a second, if another file was moved to its place.
func (p *Program) Run(ctx context.Context, job *sojourn.Job, _ []byte) error {
	folder, err := p.watch.runFolder()
	if err != nil {
		return sojourn.WithReason(ReasonStart, err)
	}
	defer func() {
		if err := os.RemoveAll(folder); err != nil {
			job.Log().Warn("the folder of the run could not be removed", "error", err)
		}
	}()
	if p.o.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, p.o.Timeout, errTimeout)
		defer stop()
	}
	files, err := p.newFiles(ctx, folder, job)
	if err != nil {
		return sojourn.WithReason(ReasonStart, err)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	state, tail, err := p.run(ctx, job, files)
	if err != nil {
		return sojourn.WithReason(ReasonStart, fmt.Errorf("%s could not be started: %w", p.o.Command[0], err))
	}
	err = files.verdict(state, tail, context.Cause(ctx))
	if state.ExitCode() == 0 && sojourn.OutcomeOf(err).Type == sojourn.OutcomeCompleted {
		return err
	}
	if saveErr := files.saveCheckpoint(ctx, job); saveErr != nil {
		job.Log().Warn("the checkpoint was not stored", "error", saveErr)
	}
	return err
}

var errTimeout = errors.New("the time of the run is over")

// run starts the command and waits until all processes of its group have ended.
func (p *Program) run(ctx context.Context, job *sojourn.Job, files *files) (*os.ProcessState, string, error) {
	in, err := os.Open(files.path("job.json"))
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	log := job.Log()
	out, err := newPipe(func(line string) { log.Info(line) })
	if err != nil {
		return nil, "", err
	}
	errs, err := newPipe(func(line string) { log.Warn(line) })
	if err != nil {
		out.close()
		return nil, "", err
	}
	// Linux kills the child when the thread that created it ends, not when the process ends; so the
	// thread is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := &exec.Cmd{Path: p.path, Args: p.o.Command, Dir: files.path("work"), Env: p.environment(files), Stdin: in, Stdout: out.w, Stderr: errs.w, SysProcAttr: ownGroup()}
	err = cmd.Start()
	if err != nil {
		out.close()
		errs.close()
		return nil, "", err
	}
	p.watch.add(cmd.Process.Pid)
	out.start()
	errs.start()
	stop := files.watchCheckpoint(ctx, job)
	state, err := wait(ctx, cmd.Process)
	stop()
	p.watch.remove(cmd.Process.Pid)
	out.end()
	errs.end()
	return state, errs.lines.last(), err
}

// wait waits for the program, and ends its group: in order if ctx ends first, else at once.
func wait(ctx context.Context, program *os.Process) (state *os.ProcessState, err error) {
	ended := make(chan struct{})
	go func() {
		state, err = program.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		killGroup(program.Pid)
		return state, err
	case <-ctx.Done():
	}
	terminateGroup(program.Pid)
	late := time.After(KillAfter)
	for groupLives(program.Pid) { // the rest of the group may still tidy up when its leader has ended
		select {
		case <-late:
			killGroup(program.Pid)
			<-ended
			return state, err
		case <-time.After(10 * time.Millisecond):
		}
	}
	<-ended
	return state, err
}
