package rules

import "github.com/sojourn-queue/sojourn"

// OnlyTags reports whether nothing but tags is changed.
func OnlyTags(c sojourn.Change) bool {
	t := c
	t.Tags, t.RemoveTags, t.AddTags = nil, nil, nil
	return c != t && t == sojourn.Change{}
}

// WhileAwaiting reports whether an awaiting job can be changed so: nothing but tags and priority.
func WhileAwaiting(c sojourn.Change) bool {
	c.Priority = nil
	return OnlyTags(c) || c == sojourn.Change{}
}

// Chooses checks that f says which jobs are edited: it has a condition, or e says All.
func Chooses(f sojourn.Filter, e sojourn.Edit) error {
	all := f.IDs == nil && f.States == nil && f.Kind == "" && f.Key == "" && f.Queue == "" && f.Group == "" && f.Tag == "" && f.Reason == "" &&
		f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.ParentsOf == 0 && f.ChildrenOf == 0 // paging is no condition
	switch {
	case e.All && !all:
		return sojourn.Invalid("all", "all edits every job, but the filter has conditions; remove either all or the conditions")
	case !e.All && all:
		return sojourn.Invalid("filter", "has no condition and would edit every job: name the jobs, for example by ids, queue or states, or set all")
	}
	return nil
}
