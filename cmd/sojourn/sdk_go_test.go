package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/store/event"
	"github.com/sojourn-queue/sojourn/store/filter"
	"github.com/sojourn-queue/sojourn/worker"
)

// scenarioStep is one step of the file.
type scenarioStep struct {
	Do         string
	Job        json.RawMessage // of enqueue the new job, else the name of one
	Jobs       []scenarioJob
	As         json.RawMessage
	ID         sojourn.ID
	Kind       string
	Key        string
	Queue      string
	Settings   json.RawMessage
	BodyJSON   *string `json:"body_json"`
	MessageID  string  `json:"message_id"`
	Failed     bool
	Partial    bool
	Reason     string
	Generation int32
	State      sojourn.State
	Grace      float64
	Filter     struct {
		event.Filter
		ParentsOf  string `json:"parents_of"`
		ChildrenOf string `json:"children_of"`
		Where      string
	}
	On         *[]string
	Dependents string
	How, Name  string
	Schedule   *scenarioSchedule
	Members    []scenarioMember
	Open       bool
	OnEnd      *scenarioJob `json:"on_end"`
	Worker     struct {
		Queues      []string
		Concurrency int
		Lease       float64
	}
	Expect json.RawMessage
	Error  *struct {
		Code      string
		Field     string
		Index     *int
		Retryable *bool
	}
}

// scenarioJob is a job as the file has it.
type scenarioJob struct {
	Kind, Queue, Key string
	ContentType      string  `json:"content_type"`
	ArgsJSON         *string `json:"args_json"`
	ArgsBase64       []byte  `json:"args_base64"`
	ArgsSize         int     `json:"args_size"`
	Priority, Weight *int32
	Delay            int
	OnConflict       string `json:"on_conflict"`
	Policy           struct {
		MaxAttempts int32 `json:"max_attempts"`
		NoExtend    *bool `json:"no_extend"`
		Backoff     struct{ First string }
	}
	DependsOn []struct {
		Jobs      []any
		OnFailure sojourn.OnFailure `json:"on_failure"`
	} `json:"depends_on"`
}

func (s scenarioJob) job() *sojourn.Job {
	args := s.ArgsBase64
	j := sojourn.NewJob(s.Kind, nil)
	if args != nil {
		j.ContentType = "application/octet-stream"
	}
	if s.ArgsJSON != nil {
		args = []byte(*s.ArgsJSON)
	}
	if s.ArgsSize > 0 {
		args = bytes.Repeat([]byte("x"), s.ArgsSize)
	}
	j.Args, j.Key = args, s.Key
	if s.Queue != "" {
		j.Queue = s.Queue
	}
	if s.ContentType != "" {
		j.ContentType = s.ContentType
	}
	if s.Priority != nil {
		j.Priority = *s.Priority
	}
	if s.Weight != nil {
		j.Weight = *s.Weight
	}
	j.Explicit(s.Priority != nil, s.Weight != nil)
	j.Delay = time.Duration(s.Delay) * time.Second
	if s.OnConflict == "error" {
		j.OnConflict = sojourn.ReturnError
	}
	j.Policy.MaxAttempts, j.Policy.NoExtend = s.Policy.MaxAttempts, s.Policy.NoExtend
	j.Policy.Backoff.First, _ = time.ParseDuration(s.Policy.Backoff.First)
	return j
}

// scenarioDriver runs the steps with the Go client and worker.
type scenarioDriver struct {
	*testing.T
	url, token string
	client     *sojourn.Client
	ids        map[string]sojourn.ID
	next       map[string]event.Position // what acknowledges the last page of a follower
	stop       func(grace time.Duration)

	mu      sync.Mutex
	records map[any][]string
}

func runScenario(t *testing.T, url, token string, steps []scenarioStep) {
	client, err := httpapi.Dial(url, httpapi.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := &scenarioDriver{T: t, url: url, token: token, client: client, ids: map[string]sojourn.ID{}, next: map[string]event.Position{}, records: map[any][]string{}}
	for i, s := range steps {
		got, err := d.do(t.Context(), s)
		if s.Error == nil && err != nil {
			t.Fatalf("step %d, %s: %v", i+1, s.Do, err)
		}
		if s.Error != nil {
			e, ok := errors.AsType[*sojourn.Error](err)
			if !ok || e.Code != s.Error.Code || s.Error.Field != "" && e.Field != s.Error.Field || s.Error.Index != nil && e.Index != *s.Error.Index ||
				s.Error.Retryable != nil && e.Retryable != *s.Error.Retryable {
				t.Fatalf("step %d, %s: error %v, want %+v", i+1, s.Do, err, *s.Error)
			}
			continue
		}
		if wrong := unlike(got, s.Expect); wrong != "" {
			t.Fatalf("step %d, %s %s: %s", i+1, s.Do, s.Job, wrong)
		}
	}
}

// unlike says what of want is not in got, both as JSON.
func unlike(got any, want json.RawMessage) string {
	if want == nil {
		return ""
	}
	b, err := json.Marshal(got)
	if err != nil {
		return err.Error()
	}
	var g, w any
	if json.Unmarshal(b, &g) != nil || json.Unmarshal(want, &w) != nil {
		return "is no JSON"
	}
	return differs(g, w)
}

func differs(got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		for name, w := range want {
			if wrong := differs(got.(map[string]any)[name], w); wrong != "" {
				return name + ": " + wrong
			}
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return fmt.Sprintf("is %v, not %v", got, want)
		}
		for i, w := range want {
			if wrong := differs(list[i], w); wrong != "" {
				return wrong
			}
		}
	default:
		if got == nil { // a field that is left out
			got = map[string]any{"string": "", "float64": 0.0, "bool": false}[fmt.Sprintf("%T", want)]
		}
		if got != want {
			return fmt.Sprintf("is %v, not %v", got, want)
		}
	}
	return ""
}

// named is the id of the job that the step names.
func (d *scenarioDriver) named(s scenarioStep) sojourn.ID {
	var name string
	if json.Unmarshal(s.Job, &name) != nil {
		return s.ID
	}
	return d.ids[name]
}

// call sends a request past the client.
func (d *scenarioDriver) call(ctx context.Context, method, path, token string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s", method, path, got.Status)
	}
	return nil
}

// shown is a job with the forms of its result that the file has.
type shown struct {
	*sojourn.Job
	CheckpointJSON string `json:"checkpoint_json"`
	DetailJSON     string `json:"error_detail_json"`
	ResultJSON     string `json:"result_json"`
	ResultBase64   []byte `json:"result_base64"`
}

func show(j *sojourn.Job, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return shown{j, string(j.Checkpoint), string(j.ErrorDetail), string(j.Result), j.Result}, nil
}

func (d *scenarioDriver) do(ctx context.Context, s scenarioStep) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch id := d.named(s); s.Do {
	case "unauthorized":
		c, err := httpapi.Dial(d.url, httpapi.Token("sj_wrong"))
		if err == nil {
			defer c.Close()
			_, err = c.Get(ctx, 1)
		}
		return nil, err
	case "get":
		return show(d.client.Get(ctx, id))
	case "wait":
		return show(d.client.Wait(ctx, id))
	case "until":
		found, err := d.client.Store().Find(ctx, sojourn.Filter{IDs: []sojourn.ID{id}, States: []sojourn.State{s.State}, Wait: patience})
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("the job is not %s", s.State)
		}
		return nil, err
	case "enqueue", "enqueue_many":
		return d.enqueue(ctx, s)
	case "queue":
		return nil, d.call(ctx, http.MethodPut, "/v1/queues/"+s.Queue, d.token, s.Settings)
	case "cancel":
		_, err := d.client.Jobs().Edit(ctx, id, sojourn.Edit{Action: sojourn.EditCancel, Reason: s.Reason, Dependents: s.Dependents})
		return nil, err
	case "redrive":
		_, err := d.client.Jobs().Edit(ctx, id, sojourn.Edit{Action: sojourn.EditRedrive, Generation: s.Generation})
		return nil, err
	case "respond":
		r := &sojourn.Response{Kind: s.Kind, Key: s.Key, Job: id, MessageID: s.MessageID, Failed: s.Failed, Reason: s.Reason}
		if s.BodyJSON != nil {
			r.Body, r.ContentType = []byte(*s.BodyJSON), "application/json"
		}
		return d.client.Respond(ctx, r)
	case "start":
		return nil, d.start(s)
	case "stop":
		d.stop(time.Duration(s.Grace * float64(time.Second)))
		return nil, nil
	}
	if done, got, err := d.compose(ctx, s); done {
		return got, err
	}
	return d.list(ctx, s)
}

// list does the steps that compare a list.
func (d *scenarioDriver) list(ctx context.Context, s scenarioStep) (any, error) {
	names := []string{}
	switch s.Do {
	case "find":
		f := sojourn.Filter{Kind: s.Filter.Kind, ParentsOf: d.ids[s.Filter.ParentsOf], ChildrenOf: d.ids[s.Filter.ChildrenOf]}
		if s.Filter.Where != "" {
			var err error
			if f, err = filter.Parse(s.Filter.Where, time.Now()); err != nil {
				return nil, err
			}
		}
		jobs, err := d.client.Store().Find(ctx, f)
		for _, j := range jobs {
			for name, id := range d.ids {
				if id == j.ID && name != "again" {
					names = append(names, name)
				}
			}
		}
		return names, err
	case "history":
		history, err := d.client.Jobs().History(ctx, d.named(s))
		for _, h := range history {
			names = append(names, h.Outcome)
		}
		return names, err
	case "recorded":
		var want []string
		if err := json.Unmarshal(s.Expect, &want); err != nil {
			return nil, err
		}
		at := any(d.named(s))
		if s.Kind != "" {
			at = s.Kind
		}
		eventually(d.T, "records of "+string(s.Job), func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			names = slices.Clone(d.records[at])
			return len(names) >= len(want)
		})
		return names, nil
	}
	return nil, errors.New("no such step")
}

func (d *scenarioDriver) enqueue(ctx context.Context, s scenarioStep) (any, error) {
	if s.Do == "enqueue" {
		var j scenarioJob
		if err := json.Unmarshal(s.Job, &j); err != nil {
			return nil, err
		}
		one := j.job()
		d.depends(one, j, nil)
		e, err := d.client.Enqueue(ctx, one)
		var name string
		_ = json.Unmarshal(s.As, &name) // most have no name
		d.ids[name] = e.ID
		return e, err
	}
	jobs := make([]*sojourn.Job, len(s.Jobs))
	var names []string
	_ = json.Unmarshal(s.As, &names)
	ids, err := d.client.Reserve(ctx, len(jobs))
	if err != nil {
		return nil, err
	}
	batch := map[string]sojourn.ID{}
	for i := range s.Jobs {
		jobs[i] = s.Jobs[i].job()
		jobs[i].ID = ids[i]
		d.depends(jobs[i], s.Jobs[i], batch)
		if i < len(names) {
			batch[names[i]] = ids[i]
		}
	}
	enqueue := d.client.EnqueueAll
	if s.Partial {
		enqueue = d.client.EnqueueEach
	}
	es, err := enqueue(ctx, jobs...)
	answers := make([]map[string]any, len(es))
	for i, e := range es {
		answers[i] = map[string]any{"state": e.State.String(), "code": sojourn.ErrorCode(e.Err)}
		if i < len(names) {
			d.ids[names[i]] = e.ID
		}
	}
	return answers, err
}

func (d *scenarioDriver) record(at any, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[at] = append(d.records[at], text)
}

func (d *scenarioDriver) start(s scenarioStep) error {
	w := worker.New(d.client, worker.Options{Queues: s.Worker.Queues, Concurrency: s.Worker.Concurrency, Grace: -1,
		Lease: time.Duration(s.Worker.Lease * float64(time.Second))})
	d.handlers(w)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	d.stop = func(grace time.Duration) {
		if grace > time.Second { // the options have none, so what runs must end first
			eventually(d.T, "nothing runs", func() bool {
				running, err := d.client.Store().Find(ctx, sojourn.Filter{States: []sojourn.State{sojourn.Running}})
				return err == nil && len(running) == 0
			})
		}
		cancel()
		if err := <-ended; err != nil {
			d.Errorf("the worker ended with %v", err)
		}
	}
	return nil
}
