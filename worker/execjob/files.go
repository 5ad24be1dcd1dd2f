package execjob

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// Passed are the variables that a program inherits, if they are set. It does not inherit others,
// because they may hold the credentials of the store; Options.Env adds variables explicitly.
var Passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ"}

// files are the folder of one run. A program reads job.json on its standard input; args, response
// and checkpoint have the exact bytes; the program writes result, await, retry_after and
// error_detail. It runs in the subfolder work, so that it does not overwrite one of the files by
// accident.
type files struct {
	folder  string
	vars    []string // of the environment
	stored  []byte   // the checkpoint at the start
	job     *sojourn.Job
	mayHave int64       // bytes of a file that is read
	seen    fs.FileInfo // the file of the checkpoint that was looked at last
}

func (p *Program) newFiles(ctx context.Context, folder string, job *sojourn.Job) (*files, error) {
	f := &files{folder: folder, stored: job.Checkpoint, job: job, mayHave: sojourn.MaxMaxBytes}
	url, err := job.RespondURL(0)
	if err != nil {
		url = "" // no URL for responses is configured
	}
	var parents []parent
	if p.o.Parents {
		if parents, err = parentsOf(ctx, job); err != nil {
			return nil, err
		}
	}
	about, err := describe(job, url, parents)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.path("work"), 0o700); err != nil {
		return nil, err
	}
	given := map[string][]byte{"job.json": about, "args": job.Args, "checkpoint": job.Checkpoint}
	if job.Response != nil {
		given["response"] = job.Response.Body
	}
	if len(parents) > 0 {
		if given["parents"], err = jsonLine(parents); err != nil {
			return nil, err
		}
	}
	for name, b := range given {
		if err := os.WriteFile(f.path(name), b, 0o600); err != nil {
			return nil, err
		}
	}
	if f.seen, err = os.Lstat(f.path("checkpoint")); err != nil {
		return nil, err
	}
	f.vars = []string{
		"SOJOURN_ID=" + strconv.FormatInt(int64(job.ID), 10), "SOJOURN_KIND=" + job.Kind, "SOJOURN_QUEUE=" + job.Queue, "SOJOURN_KEY=" + job.Key,
		"SOJOURN_ATTEMPT=" + strconv.Itoa(int(job.Attempt)), "SOJOURN_STAGE=" + strconv.Itoa(int(job.Stage)), "SOJOURN_IDEMPOTENCY_KEY=" + job.IdempotencyKey(), "TMPDIR=" + f.path("work"),
	}
	for _, name := range []string{"args", "checkpoint", "result", "await", "retry_after", "next", "advance", "error_detail"} {
		f.vars = append(f.vars, "SOJOURN_"+strings.ToUpper(name)+"="+f.path(name))
	}
	if job.Response != nil { // a script asks [ -n "$SOJOURN_RESPONSE" ]
		f.vars = append(f.vars, "SOJOURN_RESPONSE="+f.path("response"))
	}
	if len(parents) > 0 {
		f.vars = append(f.vars, "SOJOURN_PARENTS="+f.path("parents"))
	}
	if job.Schedule != "" {
		f.vars = append(f.vars, "SOJOURN_SCHEDULE="+job.Schedule, "SOJOURN_SCHEDULED_FOR="+job.ScheduledFor.UTC().Format(time.RFC3339))
	}
	if parent, state := job.TraceContext(); parent != "" {
		f.vars = append(f.vars, "TRACEPARENT="+parent, "TRACESTATE="+state)
	}
	if url != "" {
		f.vars = append(f.vars, "SOJOURN_RESPOND_URL="+url)
	}
	return f, nil
}

func (f *files) path(name string) string { return filepath.Join(f.folder, name) }

// environment returns the variables of the program. Of two with one name the last counts.
func (p *Program) environment(f *files) []string {
	var env []string
	for _, name := range Passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return slices.Concat(env, p.o.Env, f.vars)
}

// value is bytes as they stand in the JSON of the HTTP API: JSON as it is, but for spaces between
// its parts, anything else as {"$base64": "…"}.
type value []byte

func (v value) MarshalJSON() ([]byte, error) {
	if utf8.Valid(v) && json.Valid(v) && !bytes.Contains(v, []byte("$base64")) {
		return v, nil
	}
	return json.Marshal(map[string]string{"$base64": base64.StdEncoding.EncodeToString(v)})
}

// answer is a response as a program sees it.
type answer struct {
	Key         string    `json:"key,omitempty"`
	Source      string    `json:"source,omitempty"`
	MessageID   string    `json:"message_id,omitempty"`
	ContentType string    `json:"content_type,omitempty"`
	ReceivedAt  time.Time `json:"received_at,omitzero"`
	Body        value     `json:"body,omitempty"`
}

// description is a job as a program sees it. The names are those of the HTTP API.
type description struct {
	ID             sojourn.ID        `json:"id"`
	Kind           string            `json:"kind"`
	Queue          string            `json:"queue"`
	Key            string            `json:"key,omitempty"`
	Group          string            `json:"group,omitempty"`
	Tags           []string          `json:"tags,omitempty"`
	Meta           map[string]string `json:"meta,omitempty"`
	Stage          int32             `json:"stage,omitempty"`
	Schedule       string            `json:"schedule,omitempty"`
	ScheduledFor   time.Time         `json:"scheduled_for,omitzero"`
	Attempt        int32             `json:"attempt"`
	Failures       int32             `json:"failures"`
	Epoch          int64             `json:"epoch"`
	Purpose        sojourn.Purpose   `json:"purpose"`
	IdempotencyKey string            `json:"idempotency_key"`
	RespondURL     string            `json:"respond_url,omitempty"`
	CreatedAt      time.Time         `json:"created_at,omitzero"`
	ContentType    string            `json:"content_type,omitempty"`
	Args           value             `json:"args,omitempty"`
	Checkpoint     value             `json:"checkpoint,omitempty"`
	Response       *answer           `json:"response,omitempty"`
	Responses      []answer          `json:"responses,omitempty"`
	Parents        []parent          `json:"parents,omitempty"`
}

// parent is a job that the program's job has waited for.
type parent struct {
	ID         sojourn.ID    `json:"id"`
	Kind       string        `json:"kind"`
	Key        string        `json:"key,omitempty"`
	State      sojourn.State `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Result     value         `json:"result,omitempty"`
	ResultType string        `json:"result_type,omitempty"`
}

// parentsOf reads the jobs that a job has waited for.
func parentsOf(ctx context.Context, job *sojourn.Job) (out []parent, err error) {
	jobs, err := job.Parents(ctx)
	for _, p := range jobs {
		out = append(out, parent{p.ID, p.Kind, p.Key, p.State, p.Reason, p.Result, p.ResultType})
	}
	return out, err
}

func describe(job *sojourn.Job, url string, parents []parent) ([]byte, error) {
	d := description{ID: job.ID, Kind: job.Kind, Queue: job.Queue, Key: job.Key, Group: job.Group, Tags: job.Tags, Meta: job.Meta, Stage: job.Stage,
		Schedule: job.Schedule, ScheduledFor: job.ScheduledFor, Attempt: job.Attempt, Parents: parents,
		Failures: job.Failures, Epoch: job.Epoch, Purpose: job.Purpose, IdempotencyKey: job.IdempotencyKey(), RespondURL: url, CreatedAt: job.CreatedAt,
		ContentType: job.ContentType, Args: job.Args, Checkpoint: job.Checkpoint}
	for _, r := range job.Responses {
		d.Responses = append(d.Responses, answer{r.Key, r.Source, r.MessageID, r.ContentType, r.ReceivedAt, r.Body})
	}
	if r := job.Response; r != nil {
		d.Response = &answer{r.Key, r.Source, r.MessageID, r.ContentType, r.ReceivedAt, r.Body}
	}
	return jsonLine(d)
}

func jsonLine(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

// verdict converts the exit of the program. cause is the cause of its context if that had ended
// before.
func (f *files) verdict(state *os.ProcessState, tail string, cause error) error {
	code := state.ExitCode()
	text := state.String() // exit status 3, signal: killed
	if cause != nil {
		text += ", stopped: " + cause.Error()
	}
	if tail != "" {
		text += ": " + tail
	}
	var err error
	switch code {
	case 0:
		if err = f.takeResult(); err == nil {
			err = f.follow()
		}
	case ExitAwait:
		return f.wait()
	case ExitRetry:
		return f.retry()
	case ExitAbort:
		if err := f.takeResult(); err != nil {
			f.job.Log().Warn("the result was not stored", "error", err)
		}
		return sojourn.Abort(f.detailed(sojourn.WithReason("exit_"+strconv.Itoa(code), errors.New(text))))
	case -1:
		err = sojourn.WithReason(ReasonSignal, errors.New(text))
	default:
		err = sojourn.WithReason("exit_"+strconv.Itoa(code), errors.New(text))
	}
	if code != 0 && errors.Is(cause, errTimeout) {
		err = sojourn.WithReason(sojourn.ReasonRunTimeout, errors.New(text))
	}
	if code != 0 {
		err = f.detailed(err)
	}
	return err
}

// detailed adds the file error_detail to an error. A file that cannot be read loses the detail, not
// the error.
func (f *files) detailed(err error) error {
	b, failed := f.read("error_detail")
	if failed != nil {
		f.job.Log().Warn("the detail of the error was not stored", "error", failed)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	if !json.Valid(b) {
		return sojourn.WithDetail(string(b), err)
	}
	return sojourn.WithDetail(json.RawMessage(b), err)
}

func (f *files) takeResult() error {
	b, err := f.read("result")
	if err != nil || len(b) == 0 {
		return err
	}
	f.job.Result, f.job.ResultType = b, "application/octet-stream"
	switch {
	case !utf8.Valid(b):
	case json.Valid(b):
		f.job.ResultType = "application/json"
	default:
		f.job.ResultType = "text/plain; charset=utf-8"
	}
	return nil
}

// follow reads what follows a completed step.
func (f *files) follow() error {
	var follow jsonform.Follow
	var stage jsonform.Stage
	for _, file := range []struct {
		name string
		to   any
		form string
	}{{"next", &follow.Next, `[{"kind": "ship", "args": {"order": 42}}]`}, {"advance", &stage, `{"queue": "ship"}`}} {
		b, err := f.read(file.name)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(b)) == 0 {
			continue
		}
		if err := jsonform.ReadStrict(b, file.to); err != nil {
			return wrong(file.name, "%.200v; write such as %s", err, file.form)
		}
		if file.to == any(&stage) {
			follow.Advance = &stage
		}
	}
	out := follow.Outcome()
	if sojourn.ErrorCode(out) != "" {
		return wrong("next or advance", "%w", out)
	}
	return out
}

// wait reads the program's wait. The fields are those of a wait in the HTTP API.
func (f *files) wait() error {
	b, err := f.read("await")
	if err != nil {
		return err
	}
	var w struct {
		Mode   sojourn.WaitMode `json:"mode"`
		Keys   []string         `json:"keys"`
		Within string           `json:"within"`
		Beat   string           `json:"beat"`
	}
	if len(bytes.TrimSpace(b)) > 0 {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&w); err != nil {
			return wrong("await", `%v; write such as {"within": "6h", "keys": ["order-42"], "mode": "all", "beat": "5m"}`, err)
		}
	}
	within, err := duration("await", w.Within)
	if err != nil {
		return err
	}
	beat, err := duration("await", w.Beat)
	if err != nil {
		return err
	}
	await := sojourn.Await(within)
	switch {
	case len(w.Keys) > 0 && w.Mode == sojourn.WaitAll:
		await = sojourn.AwaitAll(within, w.Keys...)
	case len(w.Keys) > 0:
		await = sojourn.AwaitAny(within, w.Keys...)
	}
	if beat > 0 {
		await = sojourn.WithBeat(beat, await)
	}
	return await
}

func (f *files) retry() error {
	b, err := f.read("retry_after")
	if err != nil {
		return err
	}
	after := DefaultRetryAfter
	if text := strings.TrimSpace(string(b)); text != "" {
		if after, err = duration("retry_after", text); err != nil {
			return err
		}
	}
	return sojourn.Snooze(after)
}

func duration(file, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > sojourn.MaxHorizon {
		return 0, wrong(file, "%.64q is not a duration such as 90s or 6h, of at most 10 years", text)
	}
	return d, nil
}

func wrong(file, format string, a ...any) error {
	return sojourn.WithReason(ReasonOutput, fmt.Errorf("the file %s: "+format, append([]any{file}, a...)...))
}

// read returns the content of a file that the program wrote, nil if there is none. It reads only
// regular files: others may block or never end.
func (f *files) read(name string) ([]byte, error) {
	about, err := os.Lstat(f.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, wrong(name, "%v", err)
	case !about.Mode().IsRegular():
		return nil, wrong(name, "is no regular file")
	}
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, wrong(name, "%v", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, f.mayHave+1))
	if err != nil {
		return nil, wrong(name, "%v", err)
	}
	if int64(len(b)) > f.mayHave {
		return nil, wrong(name, "has more than %d bytes; store them elsewhere and leave a reference", f.mayHave)
	}
	return b, nil
}

// watchCheckpoint stores the checkpoint while the program runs, whenever another file has replaced
// it. A file that is written in place may be incomplete, so it is stored only at the end. stop
// returns when no store call is running any more.
func (f *files) watchCheckpoint(ctx context.Context, job *sojourn.Job) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !f.replaced() {
				continue
			}
			if err := f.saveCheckpoint(ctx, job); err != nil {
				job.Log().Warn("the checkpoint was not stored", "error", err)
			}
		}
	}()
	return func() { close(ended); <-done }
}

// replaced reports whether another file has taken the place of the checkpoint since the last call.
// The first call compares with the file that was written before the program was started: the
// program may be faster than the watch.
func (f *files) replaced() bool {
	now, err := os.Lstat(f.path("checkpoint"))
	if err != nil || os.SameFile(f.seen, now) {
		return false
	}
	f.seen = now
	return true
}

// saveCheckpoint stores the checkpoint if the program has changed it, also when its context has
// ended: a shutdown leaves the lease.
func (f *files) saveCheckpoint(ctx context.Context, job *sojourn.Job) error {
	b, err := f.read("checkpoint")
	if err != nil || b == nil || bytes.Equal(b, f.stored) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if err := job.SaveCheckpoint(ctx, b); err != nil {
		return err
	}
	f.stored = b
	return nil
}
