package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// NewJob is a job to be enqueued.
type NewJob struct {
	ID          sojourn.ID           `json:"id,omitempty" doc:"out of a block that this token has leased with POST /v1/ids, so that repeating the request means the same job; none: the server draws one"`
	Kind        string               `json:"kind" doc:"which handler runs it"`
	Queue       string               `json:"queue,omitempty" doc:"default \"default\""`
	Key         string               `json:"key,omitempty" doc:"the application's own name, unique per kind while the job is live; responses find the job by it"`
	Group       string               `json:"group,omitempty" doc:"a label inside the queue: tenant, region, merchant"`
	Args        []byte               `json:"args,omitempty"`
	ContentType string               `json:"content_type,omitempty" doc:"of the args: default application/json"`
	Priority    *int32               `json:"priority,omitempty" doc:"lower first; default that of the queue, else 100"`
	Weight      *int32               `json:"weight,omitempty" doc:"how much of the queue's limit it uses, 0 to 1,000,000; default that of the queue, else 1"`
	Tags        []string             `json:"tags,omitempty" doc:"at most 64"`
	Meta        map[string]string    `json:"meta,omitempty" doc:"at most 16 KiB of names and values"`
	RunAt       time.Time            `json:"run_at,omitzero" doc:"earliest start, with its zone; a time in the past means now"`
	Delay       time.Duration        `json:"delay,omitempty" doc:"earliest start, counted by the store's clock"`
	Policy      sojourn.Policy       `json:"policy,omitzero"`
	OnConflict  sojourn.OnConflict   `json:"on_conflict,omitempty" doc:"what happens when a live job of the kind has the key: existing (answer with it, the default), error, or replace (if it was never claimed)"`
	DependsOn   []sojourn.Dependency `json:"depends_on,omitempty" doc:"the jobs that it waits for: stored before, or in the same batch"`
	Name        string               `json:"name,omitempty" doc:"of a child of await_jobs: the same name in the same stage is the same job"`
}

// NewJobOf returns the wire form of a job that Validate has accepted.
func NewJobOf(j *sojourn.Job) NewJob {
	n := NewJob{ID: j.ID, Kind: j.Kind, Queue: j.Queue, Key: j.Key, Group: j.Group, Args: j.Args, ContentType: j.ContentType, Tags: j.Tags,
		Meta: j.Meta, RunAt: j.RunAt, Delay: j.Delay, Policy: j.Policy, OnConflict: j.OnConflict, DependsOn: j.Depends, Name: j.Name}
	priority, weight := j.Given()
	if priority {
		n.Priority = &j.Priority
	}
	if weight {
		n.Weight = &j.Weight
	}
	return n
}

// Job is the domain's own.
func (n *NewJob) Job() sojourn.Job {
	j := *sojourn.NewJob(n.Kind, n.Args)
	j.ID, j.Key, j.Group, j.Tags, j.Meta = n.ID, n.Key, n.Group, n.Tags, n.Meta
	j.RunAt, j.Delay, j.Policy, j.OnConflict, j.Depends, j.Name = n.RunAt, n.Delay, n.Policy, n.OnConflict, n.DependsOn, n.Name
	if n.Queue != "" {
		j.Queue = n.Queue
	}
	if n.ContentType != "" {
		j.ContentType = n.ContentType
	}
	if n.Priority != nil {
		j.Priority = *n.Priority
	}
	if n.Weight != nil {
		j.Weight = *n.Weight
	}
	j.Explicit(n.Priority != nil, n.Weight != nil)
	return j
}

// Jobs converts NewJobs to domain jobs.
func Jobs(ns []NewJob) []sojourn.Job {
	jobs := make([]sojourn.Job, len(ns))
	for i := range ns {
		jobs[i] = ns[i].Job()
	}
	return jobs
}

// NewJobs are the inputs of all jobs.
func NewJobs(jobs []sojourn.Job) []NewJob {
	ns := make([]NewJob, len(jobs))
	for i := range jobs {
		ns[i] = NewJobOf(&jobs[i])
	}
	return ns
}

// JobView is a job in a response.
type JobView struct {
	sojourn.Job
	Instance string `json:"instance,omitempty" doc:"first part of the idempotency key instance-id-generation-stage"`
	Token    string `json:"token,omitempty" doc:"capability of the present attempt; a secret, given to its worker only"`
}

// View returns the view of a job, without the capability: only the job's worker gets it.
func View(j sojourn.Job) JobView { return JobView{Job: j, Instance: j.Instance} }

// Views shows jobs.
func Views(jobs []sojourn.Job) []JobView {
	views := make([]JobView, len(jobs))
	for i, j := range jobs {
		views[i] = View(j)
	}
	return views
}

// Domain is the job again.
func (v JobView) Domain() sojourn.Job {
	j := v.Job
	j.Instance, j.Token = v.Instance, v.Token
	return j
}

// Domains are the jobs again.
func Domains(views []JobView) []sojourn.Job {
	jobs := make([]sojourn.Job, len(views))
	for i, v := range views {
		jobs[i] = v.Domain()
	}
	return jobs
}

// Claimed is a job with its lease.
type Claimed struct {
	Job      JobView                `json:"job"`
	Lease    sojourn.Lease          `json:"lease" doc:"send it back as it is with extend, save and finish"`
	Purpose  sojourn.Purpose        `json:"purpose" doc:"start: run the handler; resume: its wait was answered; decide: only say what follows the error; poll: ask the other side"`
	LeaseFor time.Duration          `json:"lease_for" doc:"durations count from the answer: subtract the time that the request took"`
	Timeout  time.Duration          `json:"timeout,omitempty" doc:"left of the attempt's timeout"`
	Deadline time.Duration          `json:"deadline,omitempty" doc:"left of the life; absent = none"`
	Window   time.Duration          `json:"window,omitempty" doc:"left until the windows close; absent = the step need not stop then"`
	History  []sojourn.HistoryEntry `json:"history,omitempty" doc:"the errors so far, for kinds named in decidable"`
}

// ClaimedOf shows a claimed job to its worker.
func ClaimedOf(c driver.Claimed) Claimed {
	view := View(c.Job)
	view.Token = c.Job.Token
	return Claimed{view, c.Lease, c.Purpose, c.LeaseFor, c.Timeout, c.Deadline, c.Window, c.History}
}

// Domain is the claimed job again.
func (c Claimed) Domain() driver.Claimed {
	return driver.Claimed{Job: c.Job.Domain(), Lease: c.Lease, Purpose: c.Purpose, LeaseFor: c.LeaseFor, Timeout: c.Timeout,
		Deadline: c.Deadline, Window: c.Window, History: c.History}
}

// Outcome is a worker's report. Its next jobs have the form of NewJob.
type Outcome struct {
	sojourn.Outcome
	Next []NewJob `json:"next,omitempty" doc:"of completed: jobs to enqueue in the same transaction; of await_jobs: the children, each with a name; at most 1,000; those without an id get one"`
}

// OutcomeOf is o on the wire.
func OutcomeOf(o sojourn.Outcome) Outcome {
	w := Outcome{Outcome: o, Next: NewJobs(o.Next)}
	w.Outcome.Next = nil
	return w
}

// Domain is the outcome again.
func (o Outcome) Domain() sojourn.Outcome {
	d := o.Outcome
	if len(o.Next) > 0 {
		d.Next = Jobs(o.Next)
	}
	return d
}
