package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/filter"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
)

const (
	jobsOnPage = 50
	maxNewer   = 100 // jobs that "new jobs" counts
)

// jobsData is the data of the page of jobs.
type jobsData struct {
	Filter  url.Values // by the names in the URL
	States  []string
	Jobs    []*sojourn.Job
	Next    template.URL // the page of older jobs, "" if this is the last one
	First   bool         // the newest jobs
	Newer   string       // how many jobs match that are newer than those shown
	Any     bool         // there is a filter
	Actions bool
	Queues  []string
}

// chip is a state that the filter may have, and the link that puts it there or takes it away.
type chip struct {
	Name string
	On   bool
	Link template.URL
}

// Chips are the states of the filter.
func (d jobsData) Chips() (out []chip) {
	for _, name := range d.States {
		query := url.Values{}
		for key, values := range d.Filter {
			query[key] = slices.Clone(values)
		}
		on := slices.Contains(query["state"], name)
		if on {
			query["state"] = slices.DeleteFunc(query["state"], func(s string) bool { return s == name })
		} else {
			query.Add("state", name)
		}
		out = append(out, chip{name, on, template.URL("?" + query.Encode())})
	}
	return out
}

// FirstPage is the filter as a query.
func (d jobsData) FirstPage() template.URL { return template.URL("?" + d.Filter.Encode()) }

// from is the link of the live update: it has the ids of the rows, so that rows change, and none
// appears or moves.
func (d jobsData) from(self, next string) string {
	ids := make([]string, len(d.Jobs))
	for i, j := range d.Jobs {
		ids[i] = j.ID.String()
	}
	sign := "?"
	if strings.Contains(self, "?") {
		sign = "&"
	}
	return self + sign + url.Values{"shown": {strings.Join(ids, ",")}, "next": {next}}.Encode()
}

// jobsPage lists jobs, newest first. The URL has the filter and the cursor. The live update reads
// the same rows again by their ids, and counts newer ones instead of pushing the rows down.
func jobsPage(q *request) (page, error) {
	values := q.r.URL.Query()
	f, err := filter.Of(values)
	if err != nil {
		return page{}, err
	}
	f.Newest, f.Limit, f.After = true, jobsOnPage, values.Get("after")
	query := filter.Query(values)
	d := jobsData{Filter: query, States: filter.States, First: f.After == "", Any: len(query) > 0}
	d.Actions = q.can("operate", f.Queue, f.Kind)
	p := page{name: "jobs", title: "Jobs", nav: "jobs", live: 1}
	if shown := values.Get("shown"); q.partial() && shown != "" {
		if err := q.refresh(&d, f, shown); err != nil {
			return page{}, err
		}
		p.data = d
		return p, nil
	}
	found, err := q.who.client.Jobs().List(q.ctx, f)
	if err != nil {
		return page{}, err
	}
	d.Jobs = found.Items
	if len(d.Jobs) > 0 {
		p.from = d.from(q.self(), found.Next)
	}
	if q.partial() && len(d.Jobs) > 0 { // the page was empty: load it again, with its rows
		q.w.Header().Set("HX-Refresh", "true")
		q.w.WriteHeader(http.StatusNoContent)
		return page{}, nil
	}
	if found.Next != "" {
		query.Set("after", found.Next)
		d.Next = template.URL(query.Encode())
		query.Del("after")
	}
	d.Queues = q.someQueues()
	p.data = d
	return p, nil
}

// refresh reads the rows of an open page again. A job that retention has deleted disappears.
func (q *request) refresh(d *jobsData, f sojourn.Filter, shown string) error {
	var ids []sojourn.ID
	for text := range strings.SplitSeq(shown, ",") {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || len(ids) == jobsOnPage {
			return sojourn.Invalid("shown", "is not a list of ids of jobs")
		}
		ids = append(ids, sojourn.ID(id))
	}
	found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{IDs: ids, Newest: true, Limit: jobsOnPage})
	if err != nil {
		return err
	}
	d.Jobs = found.Items
	if after := q.r.URL.Query().Get("next"); after != "" {
		next := filter.Query(q.r.URL.Query())
		next.Set("after", after)
		d.Next = template.URL(next.Encode())
	}
	if !d.First || f.IDs != nil || f.Key != "" {
		return nil
	}
	f.Newest, f.After, f.Limit = false, ids[0].String(), maxNewer
	newer, err := q.who.client.Jobs().List(q.ctx, f)
	if err != nil {
		return err
	}
	switch n := len(newer.Items); {
	case n == maxNewer && newer.Next != "":
		d.Newer = fmt.Sprintf("more than %d new jobs", maxNewer)
	case n > 0:
		d.Newer = plain.Counted(int64(n), "new job")
	}
	return nil
}

// find leads to the job that a person looks for by its id or its key.
func find(q *request) (page, error) {
	text := q.get("q")
	if text == "" {
		q.redirect("jobs")
		return page{}, nil
	}
	if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
		if _, err := q.who.client.Get(q.ctx, sojourn.ID(id)); err == nil {
			q.redirect("jobs/" + sojourn.ID(id).String())
			return page{}, nil
		}
	}
	found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{Key: text, Limit: 2})
	if err == nil && len(found.Items) == 1 {
		q.redirect("jobs/" + found.Items[0].ID.String())
		return page{}, nil
	}
	q.redirect("jobs?key=" + url.QueryEscape(text))
	return page{}, nil
}
