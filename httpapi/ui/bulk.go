package ui

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/filter"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// bulkLimit is the number of jobs above which an operator types the number to confirm.
const bulkLimit = 1000

// bulkData is the data of the page that confirms a change of many jobs.
type bulkData struct {
	Action    string
	Total     int64
	Filter    url.Values
	Group     *failure.Group // of the filter, if it has one
	Selected  bool           // the jobs are chosen one by one; else a stored operation changes them
	Operation operation.Spec
	Canary    string // that the form proposes; "" if the action has none
	Rate      string
	Limit     string
	Type      bool // the number must be typed
	Back      template.URL
}

// bulkPage counts what a bulk action would change, and asks.
func bulkPage(q *request) (page, error) {
	values := q.r.URL.Query()
	action := values.Get("action")
	e, err := filter.BulkEdit(action)
	if err != nil {
		return page{}, err
	}
	all := values.Get("scope") == "all"
	if all {
		values.Del("id")
	} else if len(values["id"]) == 0 {
		return page{}, sojourn.Invalid("id", "no job is selected; mark some rows, or choose all that match")
	}
	f, err := filter.Bulk(values, action)
	if err != nil {
		return page{}, err
	}
	nav := "jobs"
	d := bulkData{Action: action, Filter: filter.Query(values), Selected: !all, Back: template.URL("jobs?" + filter.Query(values).Encode()), Rate: q.get("rate"), Limit: q.get("limit")}
	if d.Operation, err = q.spec(f, e); err != nil {
		return page{}, err
	}
	d.Operation.ID = operation.NewID()
	if action == "redrive" && all {
		d.Canary = strconv.Itoa(defaultCanary)
		if values.Has("canary") {
			d.Canary = q.get("canary")
		}
	}
	if f.Failure != "" {
		g, err := q.group(f.Failure)
		if err != nil {
			return page{}, err
		}
		nav, d.Group, d.Back = "failures", &g, link("failure", "id", g.ID)
	}
	if len(f.States) > 0 {
		if d.Total, err = q.count(d); err != nil {
			return page{}, err
		}
	}
	d.Type = d.Total > bulkLimit
	return page{name: "bulk", title: "Confirm", nav: nav, data: d}, nil
}

// count is the number of jobs that a bulk action would change.
func (q *request) count(d bulkData) (int64, error) {
	s := d.Operation
	s.Edit.DryRun = true
	if d.Selected {
		counted, err := q.who.client.Jobs().EditAll(q.ctx, s.Filter, s.Edit)
		return int64(counted.Total), err
	}
	counted, err := operation.Of(q.who.client).Start(q.ctx, s)
	return target(counted), err
}

// doBulk changes the jobs that were selected, or starts an operation on all jobs of a filter.
func doBulk(q *request) (string, error) {
	action := q.get("action")
	e, err := filter.BulkEdit(action)
	if err != nil {
		return "", err
	}
	f, err := filter.Bulk(q.r.PostForm, action)
	if err != nil {
		return "", err
	}
	total, err := strconv.Atoi(q.get("total"))
	if err != nil || total > bulkLimit && strings.ReplaceAll(q.get("typed"), ",", "") != strconv.Itoa(total) {
		return "", sojourn.Invalid("typed", "type the number of jobs, %d, to confirm; nothing was changed", total)
	}
	s, err := q.spec(f, e)
	if err != nil {
		return "", err
	}
	if len(f.IDs) > 0 {
		return q.changeSelected(s, action)
	}
	if len(f.States) == 0 {
		return "", sojourn.Conflict("no job that matches can be changed by %s", action)
	}
	o, err := operation.Of(q.who.client).Start(q.ctx, s)
	return "operation?id=" + url.QueryEscape(o.ID) + "&done=started", err
}

// changeSelected changes jobs that were selected on one page.
func (q *request) changeSelected(s operation.Spec, action string) (string, error) {
	s.Filter.Limit = sojourn.MaxFind
	out, err := q.who.client.Jobs().EditAll(q.ctx, s.Filter, s.Edit)
	if err != nil {
		return "", err
	}
	done := 0
	var refusals []error
	for _, one := range out.Items {
		if one.Err != nil {
			refusals = append(refusals, one.Err)
		} else if one.Changed {
			done++
		}
	}
	if done == 0 && len(refusals) > 0 {
		return "", refusals[0]
	}
	back := filter.Query(q.r.PostForm)
	back.Del("id")
	back.Set("done", "bulk-"+action)
	back.Set("n", strconv.Itoa(done))
	return "jobs?" + back.Encode(), nil
}
