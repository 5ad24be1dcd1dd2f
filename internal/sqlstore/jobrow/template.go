package jobrow

import "github.com/sojourn-queue/sojourn"

// Template is the stored JSON of a job that the store enqueues later, as its caller gave it. Equal
// jobs have equal texts.
type Template struct {
	Kind        string             `json:"kind"`
	Queue       string             `json:"queue"`
	Key         string             `json:"key,omitempty"`
	Group       string             `json:"group,omitempty"`
	ContentType string             `json:"content_type"`
	Args        []byte             `json:"args,omitempty"`
	Priority    *int32             `json:"priority,omitempty"` // nil: the queue's default applies
	Weight      *int32             `json:"weight,omitempty"`
	Tags        []string           `json:"tags,omitempty"`
	Meta        map[string]string  `json:"meta,omitempty"`
	Policy      sojourn.Policy     `json:"policy,omitzero"`
	OnConflict  sojourn.OnConflict `json:"on_conflict,omitempty"`
}

// TemplateOf is the template of a job.
func TemplateOf(j *sojourn.Job) Template {
	t := Template{j.Kind, j.Queue, j.Key, j.Group, j.ContentType, j.Args, nil, nil, j.Tags, j.Meta, j.Policy, j.OnConflict}
	priority, weight := j.Given()
	if priority {
		t.Priority = &j.Priority
	}
	if weight {
		t.Weight = &j.Weight
	}
	return t
}

// Job makes a job of the template.
func (t *Template) Job() *sojourn.Job {
	j := sojourn.NewJob(t.Kind, t.Args, sojourn.Queue(t.Queue), sojourn.Key(t.Key), sojourn.Group(t.Group), sojourn.OnKeyConflict(t.OnConflict))
	j.ContentType, j.Tags, j.Meta, j.Policy = t.ContentType, t.Tags, t.Meta, t.Policy
	if t.Priority != nil {
		j.Priority = *t.Priority
	}
	if t.Weight != nil {
		j.Weight = *t.Weight
	}
	j.Explicit(t.Priority != nil, t.Weight != nil)
	return j
}
