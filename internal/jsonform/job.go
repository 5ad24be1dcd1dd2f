package jsonform

import (
	"time"

	"github.com/sojourn-queue/sojourn"
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

// NewJobOf returns the form of a job that Validate has accepted.
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

// Job is the job again.
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
