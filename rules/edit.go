package rules

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// OnlyTags reports whether nothing but tags is changed.
func OnlyTags(e sojourn.Edit) bool {
	e = e.Values()
	t := e
	t.Tags, t.RemoveTags, t.AddTags = nil, nil, nil
	return e != t && t == sojourn.Edit{}
}

// WhileAwaiting reports whether an awaiting job can be changed so: nothing but tags and priority.
func WhileAwaiting(e sojourn.Edit) bool {
	e.Priority = nil
	return OnlyTags(e) || e.Values() == sojourn.Edit{}
}

// NewTags returns the tags of a job that has these, after the edit, in their order and without
// duplicates. CodeInvalid if there are too many.
func NewTags(tags []string, e sojourn.Edit) ([]string, error) {
	if e.Tags != nil {
		tags = *e.Tags
	}
	var out []string
	add := func(tag string) {
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	for _, tag := range tags {
		if e.RemoveTags == nil || !slices.Contains(*e.RemoveTags, tag) {
			add(tag)
		}
	}
	if e.AddTags != nil {
		for _, tag := range *e.AddTags {
			add(tag)
		}
	}
	return out, sojourn.ValidTags(out)
}

// Chooses checks that f says which jobs are edited: it has a condition, or e says All.
func Chooses(f sojourn.Filter, e sojourn.Edit) error {
	all := f.IDs == nil && f.States == nil && f.Kind == "" && f.Key == "" && f.Queue == "" && f.Group == "" && f.Tag == "" && f.Reason == "" &&
		f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.EndedAfter.IsZero() && f.EndedBefore.IsZero() && f.Failure == "" && f.ParentsOf == 0 && f.ChildrenOf == 0 && f.AwaitedBy == 0 && len(f.Fields) == 0 // paging is no condition
	switch {
	case e.All && !all:
		return sojourn.Invalid("all", "all edits every job, but the filter has conditions; remove either all or the conditions")
	case !e.All && all:
		return sojourn.Invalid("filter", "has no condition and would edit every job: name the jobs, for example by ids, queue or states, or set all")
	}
	return nil
}

// InboxEdit is an operator's edit of one response: the arguments of sojourn.Store.EditInbox.
type InboxEdit struct {
	Seq    int64
	Action string // sojourn.InboxMatch, InboxRetry or InboxDiscard
	Job    sojourn.ID
	Kind   string
	Key    string
	By     string
}

// Validate checks everything that can be checked without the store's data.
func (e InboxEdit) Validate() error {
	if e.Seq < 1 {
		return sojourn.Invalid("seq", "%d is not the number of a response", e.Seq)
	}
	switch to := e.To(); e.Action {
	case sojourn.InboxMatch:
		return to.Validate(0)
	case sojourn.InboxRetry, sojourn.InboxDiscard:
		if e.Job != 0 || e.Kind != "" || e.Key != "" {
			return sojourn.Invalid("job", "only match takes a job or a key")
		}
		return nil
	}
	return sojourn.Invalid("action", "%.64q is not an action: use match, retry or discard", e.Action)
}

// To is the last argument of EditInbox.
func (e InboxEdit) To() sojourn.Response {
	return sojourn.Response{Job: e.Job, Kind: e.Kind, Key: e.Key, By: e.By}
}
