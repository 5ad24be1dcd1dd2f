package ui

import (
	"html/template"
	"maps"
	"net/url"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// Sizes of the pages of failures.
const (
	failuresOnPage = 50
	defaultCanary  = 10
	shownOfGroup   = 5 // operations on the page of a group
)

// failuresData is the data of the list of failure groups.
type failuresData struct {
	Groups []failure.Group
	Filter url.Values
	Next   string
	Queues []string
}

// Chips switch the filters that are on or off.
func (d failuresData) Chips() (out []chip) {
	for _, c := range []struct{ field, name string }{{"open", "with open jobs"}, {"muted", "also muted"}} {
		query := maps.Clone(d.Filter)
		on := query.Get(c.field) != ""
		if query.Del(c.field); !on {
			query.Set(c.field, "1")
		}
		out = append(out, chip{c.name, on, template.URL("?" + query.Encode())})
	}
	return out
}

// Older is the query of the page that follows.
func (d failuresData) Older() template.URL {
	query := maps.Clone(d.Filter)
	query.Set("after", d.Next)
	return template.URL("?" + query.Encode())
}

// failuresPage lists failure groups, those with the latest failures first.
func failuresPage(q *request) (page, error) {
	d := failuresData{Filter: url.Values{}}
	for _, name := range []string{"queue", "kind", "reason", "open", "muted"} {
		if v := q.get(name); v != "" {
			d.Filter.Set(name, v)
		}
	}
	query := failure.Query{Queue: q.get("queue"), Kind: q.get("kind"), Reason: q.get("reason"), Open: d.Filter.Has("open"), Muted: d.Filter.Has("muted"), After: q.get("after"), Limit: failuresOnPage}
	found, _, err := q.who.failures.get(query.After+"?"+d.Filter.Encode(), func() ([]failure.Group, error) { return failure.Of(q.who.client).List(q.ctx, query) })
	if err != nil {
		return page{}, err
	}
	if d.Groups = found; len(found) == failuresOnPage {
		d.Next = found[len(found)-1].Cursor()
	}
	d.Queues = q.someQueues()
	return page{name: "failures", title: "Failures", nav: "failures", live: 5, data: d}, nil
}

// failureData is the data of the page of a failure group.
type failureData struct {
	Group      failure.Group
	Operations []operation.Status // the latest ones on its jobs
	Canary     int                // that the form proposes
}

// Jobs is the link to the jobs of the group in a state; "" are all.
func (d failureData) Jobs(state string) template.URL {
	return link("jobs", "failure", d.Group.ID, "queue", d.Group.Queue, "kind", d.Group.Kind, "state", state)
}

// group reads a failure group with exact counts.
func (q *request) group(id string) (failure.Group, error) {
	found, _, err := q.who.failures.get(id, func() ([]failure.Group, error) {
		g, err := failure.Of(q.who.client).Get(q.ctx, id)
		return []failure.Group{g}, err
	})
	if err != nil {
		return failure.Group{}, err
	}
	return found[0], nil
}

// failurePage shows one failure group.
func failurePage(q *request) (page, error) {
	id := q.get("id")
	if _, err := failure.ParseID(id); err != nil {
		return page{}, err
	}
	g, err := q.group(id)
	if err != nil {
		return page{}, err
	}
	d := failureData{Group: g, Canary: defaultCanary}
	if q.can(access.VerbOperate, g.Queue, g.Kind) {
		all, err := q.newestOperations()
		if err != nil {
			return page{}, err
		}
		for _, o := range all {
			if o.Failure == id && len(d.Operations) < shownOfGroup {
				d.Operations = append(d.Operations, o)
			}
		}
	}
	return page{name: "failure", title: "Failure group", nav: "failures", live: 2, data: d}, nil
}

// doMute mutes a failure group or ends its mute.
func doMute(q *request) (string, error) {
	id := q.get("id")
	if _, err := failure.ParseID(id); err != nil {
		return "", err
	}
	m, to := failure.Mute{By: webName, Reason: q.get("why")}, "failure?id="+id+"&done="
	if m.Off = q.get("off") != ""; m.Off {
		_, err := failure.Of(q.who.client).Mute(q.ctx, id, m)
		return to + "unmuted", err
	}
	if text := q.get("for"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return "", sojourn.Invalid("for", "%.64q is not a duration such as 2h or 48h; nothing was changed", text)
		}
		m.For = d
	}
	_, err := failure.Of(q.who.client).Mute(q.ctx, id, m)
	return to + "muted", err
}
