package ui

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/plain"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// Sizes of the pages of operations.
const (
	operationsOnPage = 50
	searchedForWork  = 200 // operations among which those of a group and those that have stopped are looked for
)

// operationsData is the data of the list of operations.
type operationsData struct {
	Operations []operation.Status
	Next       string
	None       string // why Operations is empty
}

// operationsPage lists stored operations, the newest first.
func operationsPage(q *request) (page, error) {
	found, err := operation.StoreOf(q.who.client.Store()).Operations(q.ctx, operation.Query{After: q.get("after"), Limit: operationsOnPage})
	d := operationsData{Operations: found}
	switch {
	case refused(err):
		d.None = "Your token may not see operations: they need the verb operate."
	case err != nil:
		return page{}, err
	case len(found) == operationsOnPage:
		d.Next = found[len(found)-1].ID
	}
	return page{name: "operations", title: "Operations", nav: "operations", live: 2, data: d}, nil
}

// newestOperations are those that the person may see; none without the verb operate.
func (q *request) newestOperations() ([]operation.Status, error) {
	found, _, err := q.who.operations.get("", func() ([]operation.Status, error) {
		found, err := operation.StoreOf(q.who.client.Store()).Operations(q.ctx, operation.Query{Limit: searchedForWork})
		if refused(err) {
			return nil, nil
		}
		return found, err
	})
	return found, err
}

// operationFindings says which operations need an operator.
func operationFindings(all []operation.Status) (found []finding) {
	for _, o := range all {
		if o.State == operation.Stopped {
			found = append(found, finding{true, fmt.Sprintf("Operation %s has stopped: %s", o.ID, plain.Short(200, o.Problem)), link("operation", "id", o.ID)})
		}
	}
	return found
}

// operationData is the data of the page of an operation.
type operationData struct {
	Operation operation.Status
	Canaries  []*sojourn.Job // that it waits for, or the one that has stopped it
	Left      string         // how long the rest takes at its rate
	Change    bool           // who sees an operation may change it, except on a page that is read-only
	Running   bool           // it may be paused
	Resume    string         // the text of the button; "" if it cannot be resumed
}

func operationPage(q *request) (page, error) {
	o, err := operation.Of(q.who.client).Get(q.ctx, q.get("id"))
	if err != nil {
		return page{}, err
	}
	d := operationData{Operation: o, Change: !q.o.ReadOnly, Running: o.State == operation.Running || o.State == operation.Canary}
	switch {
	case o.State == operation.Paused, o.State == operation.Stopped && o.Canary == 0:
		d.Resume = "Resume"
	case o.State == operation.Stopped:
		d.Resume = "Resume without canaries"
	case o.State == operation.Running && o.Rate > 0:
		d.Left = plain.Duration(time.Duration(float64(max(target(o)-handled(o), 0)) / o.Rate * float64(time.Second)))
	}
	if len(o.Canaries) > 0 && !(o.State == operation.Completed || o.State == operation.Cancelled) {
		found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{IDs: o.Canaries, Limit: operation.MaxCanary})
		if err != nil {
			return page{}, err
		}
		d.Canaries = found.Items
	}
	return page{name: "operation", title: "Operation " + o.ID, nav: "operations", live: 1, data: d}, nil
}

// target is the number of jobs after which an operation has ended.
func target(o operation.Status) int64 {
	if o.Limit > 0 {
		return min(o.Limit, o.Total)
	}
	return o.Total
}

// handled is the number of jobs that an operation has handled.
func handled(o operation.Status) int64 { return o.Changed + o.Unchanged + o.Refused }

// progress is the bar of an operation, in thousandths.
func progress(o operation.Status) (out []count) {
	var x int64
	of := max(target(o), handled(o), 1)
	for _, c := range []count{{State: "completed", Count: o.Changed}, {State: "cancelled", Count: o.Unchanged}, {State: "failed", Count: o.Refused}} {
		if c.Count > 0 {
			c.X, c.Part = x, 1000*c.Count/of
			x += c.Part
			out = append(out, c)
		}
	}
	return out
}

// pace is the rate of an operation in words, by the second, the minute, the hour or the day.
func pace(rate float64) string {
	for _, unit := range []struct {
		seconds float64
		name    string
	}{{1, "a second"}, {60, "a minute"}, {3600, "an hour"}} {
		if n := rate * unit.seconds; n >= 0.999 {
			text := strconv.FormatFloat(n, 'f', -1, 32)
			if text == "1" {
				return "1 job " + unit.name
			}
			return text + " jobs " + unit.name
		}
	}
	return fmt.Sprintf("%.3g jobs a day", rate*86400)
}

// spec is the operation that a form describes. It has an id, so that a second click on the form
// starts nothing.
func (q *request) spec(f sojourn.Filter, e sojourn.Edit) (operation.Spec, error) {
	e.By, e.Reason = webName, q.get("why")
	s := operation.Spec{ID: q.get("operation"), Filter: f, Edit: e}
	var err error
	if s.Rate, err = operation.ParseRate(q.get("rate")); err != nil {
		return s, err
	}
	for name, to := range map[string]*int64{"limit": &s.Limit, "canary": new(int64)} {
		text := strings.ReplaceAll(q.get(name), ",", "")
		if text == "" {
			continue
		}
		if *to, err = strconv.ParseInt(text, 10, 32); err != nil {
			return s, sojourn.Invalid(name, "%.64q is not a whole number; nothing was changed", text)
		}
		if name == "canary" {
			s.Canary = int(*to)
		}
	}
	return s, s.Validate(sojourn.MaxMaxBytes)
}

// doOperation pauses, resumes or cancels an operation.
func doOperation(q *request) (string, error) {
	id := q.r.PostForm.Get("id")
	action := operation.Action(q.get("action"))
	switch action {
	case operation.ActionPause, operation.ActionResume, operation.ActionCancel:
	default:
		return "", sojourn.Invalid("action", "%.64q is not an action: use pause, resume or cancel", string(action))
	}
	_, err := operation.StoreOf(q.who.client.Store()).ChangeOperation(q.ctx, id, action)
	return "operation?id=" + url.QueryEscape(id) + "&done=changed", err
}

// Waits is the number of canaries that the operation waits for.
func (d operationData) Waits() int64 { return int64(len(d.Operation.Canaries)) }
