package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// NewJob is a job to be enqueued.
type NewJob = jsonform.NewJob

// NewJobOf returns the wire form of a job that Validate has accepted.
func NewJobOf(j *sojourn.Job) NewJob { return jsonform.NewJobOf(j) }

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
