package ui

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/graph"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Limits of the pages of workflows.
const (
	workflowsOnPage = 50
	membersOnPage   = 100
	maxGraph        = 60 // members in the graph: a larger one cannot be read
	edgesFresh      = 30 * time.Second
	maxGraphs       = 100 // whose edges are remembered
)

var workflowStates = []workflow.State{workflow.Open, workflow.Running, workflow.Completed, workflow.Failed, workflow.Cancelled}

// workflowsData is the data of the page of workflows.
type workflowsData struct {
	Workflows []workflow.Status
	Prefix    string
	State     workflow.State
	States    []workflow.State
	Next      string
}

func workflowsPage(q *request) (page, error) {
	d := workflowsData{Prefix: q.get("q"), State: workflow.State(q.get("state")), States: workflowStates}
	query := workflow.Query{Prefix: d.Prefix, After: q.get("after"), Limit: workflowsOnPage}
	if d.State != "" {
		state, err := workflow.ParseState(string(d.State))
		if err != nil {
			return page{}, err
		}
		query.States = []workflow.State{state}
	}
	found, err := workflow.StoreOf(q.who.client.Store()).Workflows(q.ctx, query)
	if err != nil {
		return page{}, err
	}
	if d.Workflows = found; len(found) == workflowsOnPage {
		d.Next = found[len(found)-1].Name
	}
	return page{name: "workflows", title: "Workflows", nav: "workflows", live: 2, data: d}, nil
}

// count is a number of members in a state.
type count struct {
	State   string
	Count   int64
	X, Part int64 // in thousandths of all members
}

// workflowData is the data of the page of a workflow.
type workflowData struct {
	Workflow workflow.Status
	Counts   []count
	Members  []workflow.MemberStatus
	Next     string
	Graph    *graph.Graph // nil if there are too many members for one
	State    string
}

func workflowPage(q *request) (page, error) {
	name := q.get("name")
	w, err := workflow.Of(q.who.client).Get(q.ctx, name)
	if err != nil {
		return page{}, err
	}
	d := workflowData{Workflow: w, State: q.get("state")}
	var x int64
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		if n := w.Counts[state]; n > 0 && w.Total > 0 {
			c := count{State: state.String(), Count: n, X: x, Part: 1000 * n / w.Total}
			x += c.Part
			d.Counts = append(d.Counts, c)
		}
	}
	query := workflow.MemberQuery{After: q.get("after"), Limit: membersOnPage}
	if d.State != "" {
		state, err := sojourn.ParseState(d.State)
		if err != nil {
			return page{}, err
		}
		query.States = []sojourn.State{state}
	}
	if d.Members, err = workflow.StoreOf(q.who.client.Store()).WorkflowMembers(q.ctx, name, query); err != nil {
		return page{}, err
	}
	if len(d.Members) == membersOnPage {
		d.Next = d.Members[len(d.Members)-1].Name
	}
	if w.Total <= maxGraph {
		if d.Graph, err = q.graph(w); err != nil {
			return page{}, err
		}
	}
	return page{name: "workflow", title: "Workflow " + name, nav: "workflows", live: 1, data: d}, nil
}

func doWorkflow(q *request) (string, error) {
	name, calls := q.r.PostForm.Get("name"), workflow.Of(q.who.client)
	to := "workflow?name=" + url.QueryEscape(name) + "&done=changed"
	var err error
	switch action := workflow.Action(q.get("action")); action {
	case workflow.ActionCancel:
		_, err = calls.Cancel(q.ctx, name, q.get("why"))
	case workflow.ActionRedrive:
		_, err = calls.Redrive(q.ctx, name, q.get("why"))
	default:
		err = sojourn.Invalid("action", "%.64q is not an action: use cancel or redrive", string(action))
	}
	return to, err
}

// numberOf reads a cursor that is a number, 0 if there is none.
func numberOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, sojourn.Invalid("before", "%.64q is not the number of an entry", text)
	}
	return n, nil
}

// edges says which members of a workflow wait for which others.
type edges struct {
	at      time.Time
	parents map[sojourn.ID][]sojourn.ID
}

// edgeCache remembers edges. They seldom change, and reading them takes a call for each member.
type edgeCache struct {
	mu    sync.Mutex // guards known
	known map[string]edges
}

// parents returns the edges between members of a workflow, by a key that is new when members or the
// reader are others.
func (c *edgeCache) parents(q *request, key string, members []workflow.MemberStatus) (map[sojourn.ID][]sojourn.ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.known[key]; ok && time.Since(e.at) < edgesFresh {
		return e.parents, nil
	}
	e := edges{at: time.Now(), parents: map[sojourn.ID][]sojourn.ID{}}
	for _, m := range members {
		found, err := q.who.client.Jobs().List(q.ctx, sojourn.Filter{ParentsOf: m.Job, Limit: maxGraph})
		if err != nil {
			return nil, err
		}
		for _, p := range found.Items {
			e.parents[m.Job] = append(e.parents[m.Job], p.ID)
		}
	}
	if len(c.known) >= maxGraphs || c.known == nil {
		c.known = map[string]edges{}
	}
	c.known[key] = e
	return e.parents, nil
}

// graph draws a workflow with few members. Members that the person may not see are not in it, and
// neither are their edges: the store gives neither.
func (q *request) graph(w workflow.Status) (*graph.Graph, error) {
	members, err := workflow.StoreOf(q.who.client.Store()).WorkflowMembers(q.ctx, w.Name, workflow.MemberQuery{Limit: maxGraph})
	if err != nil || len(members) == 0 {
		return nil, err
	}
	key := fmt.Sprintf("%s\x00%s\x00%d\x00%d", q.who.token, w.Name, w.Total, members[0].Job)
	parents, err := q.edges.parents(q, key, members)
	if err != nil {
		return nil, err
	}
	return graph.Layout(members, parents), nil
}
