package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/params"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/triage"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/rules"
)

type enqueueOneIn struct{ Body wire.NewJob }

func enqueueOne(c *call, in *enqueueOneIn) (wire.Enqueued, error) {
	j := in.Body.Job()
	return c.enqueueAlone(&j)
}

func (c *call) enqueueAlone(j *sojourn.Job) (wire.Enqueued, error) {
	if err := c.who.may(access.VerbEnqueue, j.Queue, j.Kind); err != nil {
		return wire.Enqueued{}, err
	}
	c.inheritTrace(j)
	e, err := c.client.Enqueue(c.ctx, j)
	if err != nil {
		return wire.Enqueued{}, err
	}
	if !e.Duplicate {
		c.status = http.StatusCreated
	}
	return wire.EnqueuedOf(e), nil
}

// inheritTrace gives a job the trace context of the request, if it has none.
func (c *call) inheritTrace(j *sojourn.Job) {
	j.InheritTrace(c.r.Header.Get(sojourn.MetaTraceparent), c.r.Header.Get(sojourn.MetaTracestate))
}

type enqueueBatchIn struct{ Body wire.EnqueueRequest }

func enqueueBatch(c *call, in *enqueueBatchIn) (wire.EnqueueAnswer, error) {
	jobs := wire.Jobs(in.Body.Jobs)
	send := make([]*sojourn.Job, len(jobs))
	for i := range jobs {
		if err := c.who.may(access.VerbEnqueue, jobs[i].Queue, jobs[i].Kind); err != nil {
			return wire.EnqueueAnswer{}, sojourn.AtIndex(i, err)
		}
		c.inheritTrace(&jobs[i])
		send[i] = &jobs[i]
	}
	enqueue := c.client.EnqueueAll
	if in.Body.Partial {
		enqueue = c.client.EnqueueEach
	}
	es, err := enqueue(c.ctx, send...)
	return wire.EnqueueAnswer{Jobs: wire.Each(es, wire.EnqueuedOf)}, err
}

type enqueueRawIn struct {
	Kind  string `query:"kind"`
	Queue string `query:"queue"`
	Key   string `query:"key"`
	Group string `query:"group"`
}

func enqueueRaw(c *call, in *enqueueRawIn) (wire.Enqueued, error) {
	b, err := c.readBody()
	if err != nil {
		return wire.Enqueued{}, err
	}
	n := wire.NewJob{Kind: in.Kind, Queue: in.Queue, Key: in.Key, Group: in.Group, Args: b, ContentType: c.r.Header.Get("Content-Type")}
	if n.ContentType == "" {
		n.ContentType = "application/octet-stream"
	}
	j := n.Job()
	return c.enqueueAlone(&j)
}

func listJobs(c *call, in *wire.Filter) (wire.JobsAnswer, error) {
	f, err := in.Domain(time.Now())
	if err != nil {
		return wire.JobsAnswer{}, err
	}
	return c.find(f)
}

type findJobsIn struct{ Body wire.Filter }

func findJobs(c *call, in *findJobsIn) (wire.JobsAnswer, error) {
	return listJobs(c, &in.Body)
}

// find lists jobs. A token that may not see all of them names the queue and the kind that it looks
// at, or jobs by their ids or their key, of which it then gets those that it may see: the others
// look as if they did not exist.
func (c *call) find(f sojourn.Filter) (wire.JobsAnswer, error) {
	verb := access.VerbRead
	if f.Full {
		verb = access.VerbReadArgs
	}
	if err := triage.Narrow(c.ctx, c.store, verb, &f); err != nil {
		return wire.JobsAnswer{}, err
	}
	if err := c.maySearch(f); err != nil {
		return wire.JobsAnswer{}, err
	}
	if len(f.Fields) > 0 {
		verb = access.VerbReadArgs
	}
	needs := func(h *holder) error {
		if f.IDs != nil || f.ParentsOf > 0 || f.ChildrenOf > 0 || f.AwaitedBy > 0 || f.Key != "" && f.Kind == "" {
			return h.has(verb)
		}
		return h.may(verb, f.Queue, f.Kind)
	}
	if err := needs(c.who); err != nil {
		return wire.JobsAnswer{}, err
	}
	ctx, end, err := c.waiting(f.Wait, needs)
	if err != nil {
		return wire.JobsAnswer{}, err
	}
	defer end()
	if !c.mayRelate(f) {
		return wire.JobsAnswer{Jobs: []wire.JobView{}}, nil
	}
	jobs, err := c.store.Find(ctx, f)
	if no := denied(ctx); no != nil {
		return wire.JobsAnswer{}, no
	}
	if f.Wait > tokensFresh && err == nil { // the grants may have changed meanwhile
		err = c.renew()
	}
	if err != nil && c.cut() {
		jobs, err = nil, nil
	}
	seen := jobs[:0]
	for _, j := range jobs {
		if c.who.allows(verb, j.Queue, j.Kind) {
			seen = append(seen, j)
		}
	}
	return wire.JobsAnswer{Jobs: wire.Views(seen)}, err
}

// maySearch refuses a filter by values that the caller must not read: who matches them learns them.
func (c *call) maySearch(f sojourn.Filter) error {
	if len(f.Fields) == 0 {
		return nil
	}
	if err := c.who.may(access.VerbReadArgs, f.Queue, f.Kind); err != nil {
		return err
	}
	for path := range f.Fields {
		if c.redacted.Hides(c.who.caller, f.Queue, f.Kind, path) {
			return forbidden(access.VerbReadRedacted, f.Queue, f.Kind)
		}
	}
	return nil
}

// mayRelate reports whether the caller may see the jobs whose parents or children it lists. Others
// look as if they had none.
func (c *call) mayRelate(f sojourn.Filter) bool {
	for _, id := range []sojourn.ID{f.ParentsOf, f.ChildrenOf} {
		if id > 0 && c.visible(id) != nil {
			return false
		}
	}
	return true
}

type jobIn struct {
	ID sojourn.ID `path:"id"`
}

type getJobIn struct {
	ID   sojourn.ID `path:"id"`
	Wait string     `query:"wait" doc:"a duration such as 30s, at most 60s"`
}

func getJob(c *call, in *getJobIn) (wire.JobView, error) {
	j, err := c.one(in.ID, access.VerbRead)
	if err != nil || in.Wait == "" {
		return wire.View(j), err
	}
	wait, err := jsonform.ParseDuration(in.Wait)
	if err != nil {
		return wire.JobView{}, params.Wrap("wait", err)
	}
	f := sojourn.Filter{IDs: []sojourn.ID{in.ID}, States: []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}, Wait: wait}
	if _, err := c.find(f); err != nil {
		return wire.JobView{}, err
	}
	j, err = c.one(in.ID, access.VerbRead)
	return wire.View(j), err
}

// one returns a job that the caller may see, without the parts that it may not see. Any other job
// is not found.
func (c *call) one(id sojourn.ID, verb access.Verb) (sojourn.Job, error) {
	jobs, err := c.store.Find(c.ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	if err != nil {
		return sojourn.Job{}, err
	}
	if len(jobs) == 0 || !c.who.allows(verb, jobs[0].Queue, jobs[0].Kind) {
		return sojourn.Job{}, sojourn.NotFound("no job has the id %d", id)
	}
	j := c.redacted.Job(c.who.caller, jobs[0])
	if !c.who.allows(access.VerbReadArgs, j.Queue, j.Kind) {
		j.Args, j.Result, j.Checkpoint, j.Response, j.Responses, j.ErrorDetail = nil, nil, nil, nil, nil, nil
	}
	return j, nil
}

func getArgs(c *call, in *jobIn) (bytesAnswer, error) {
	j, err := c.one(in.ID, access.VerbReadArgs)
	return bytesAnswer{j.ContentType, j.Args}, err
}

func getResult(c *call, in *jobIn) (bytesAnswer, error) {
	j, err := c.one(in.ID, access.VerbReadArgs)
	if err == nil && j.State != sojourn.Completed {
		err = sojourn.NotFound("job %d is %s and has no result", j.ID, j.State)
	}
	return bytesAnswer{j.ResultType, j.Result}, err
}

// visible returns not found for a job that the caller may not see. For callers that may see all
// jobs it skips the check: the store's own call reports a missing job.
func (c *call) visible(id sojourn.ID) error {
	if c.who.everywhere(access.VerbRead) {
		return nil
	}
	_, err := c.one(id, access.VerbRead)
	return err
}

type historyIn struct {
	ID    sojourn.ID `path:"id"`
	After int32      `query:"after" doc:"the seq of the last entry of the page before"`
	Limit int        `query:"limit" doc:"1 to 1,000; default 100"`
}

func getHistory(c *call, in *historyIn) (wire.HistoryAnswer, error) {
	if err := c.visible(in.ID); err != nil {
		return wire.HistoryAnswer{}, err
	}
	h, err := c.store.History(c.ctx, in.ID, in.After, in.Limit)
	if err == nil && slices.ContainsFunc(h, func(e sojourn.HistoryEntry) bool { return e.ErrorDetail != nil }) {
		if _, hidden := c.one(in.ID, access.VerbReadArgs); hidden != nil {
			for i := range h {
				h[i].ErrorDetail = nil
			}
		}
	}
	return wire.HistoryAnswer{History: h}, err
}

func getLog(c *call, in *jobIn) (wire.LogAnswer, error) {
	if err := c.visible(in.ID); err != nil {
		return wire.LogAnswer{}, err
	}
	lines, err := c.store.Log(c.ctx, in.ID)
	return wire.LogAnswer{Log: lines}, err
}

func whyJob(c *call, in *jobIn) (sojourn.Why, error) {
	if err := c.visible(in.ID); err != nil {
		return sojourn.Why{}, err
	}
	return c.client.Jobs().Why(c.ctx, in.ID)
}

type editJobsIn struct{ Body wire.EditRequest }

func editJobs(c *call, in *editJobsIn) (wire.EditAnswer, error) {
	f, err := in.Body.Filter.Domain(time.Now())
	if err != nil {
		return wire.EditAnswer{}, err
	}
	e := in.Body.Edit.Domain()
	verb := access.VerbOperate
	if e.Action == sojourn.EditPurge {
		verb = access.VerbAdmin
	}
	if !c.who.anyone {
		e.By = c.who.by(e.By)
	}
	c.detail = struct {
		Filter wire.Filter        `json:"filter"`
		Action sojourn.EditAction `json:"action"`
		By     string             `json:"by,omitempty"`
		Reason string             `json:"reason,omitempty"`
	}{in.Body.Filter, e.Action, e.By, e.Reason}
	if err := triage.Narrow(c.ctx, c.store, verb, &f); err != nil {
		return wire.EditAnswer{}, err
	}
	hidden, err := c.mayEdit(verb, &f, e)
	if err != nil {
		return wire.EditAnswer{}, err
	}
	edited, err := c.store.Edit(c.ctx, f, e)
	if err != nil || e.DryRun {
		return wire.EditedOf(edited), err
	}
	for _, id := range hidden {
		edited.Items = append(edited.Items, sojourn.Edited{ID: id, Err: sojourn.NotFound("no job has the id %d", id)})
	}
	slices.SortStableFunc(edited.Items, func(a, b sojourn.Edited) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return wire.EditedOf(edited), nil
}

// mayEdit holds a filter against the grants. Of ids it keeps those that the caller may edit. It
// returns the others, which are answered as if no job had them.
func (c *call) mayEdit(verb access.Verb, f *sojourn.Filter, e sojourn.Edit) (hidden []sojourn.ID, err error) {
	if err := c.maySearch(*f); err != nil {
		return nil, err
	}
	if c.who.everywhere(verb) {
		return nil, nil
	}
	if q := e.Queue; q != nil {
		if err := c.who.may(verb, *q, f.Kind); err != nil {
			return nil, err
		}
	}
	if f.IDs == nil {
		return nil, c.who.may(verb, f.Queue, f.Kind)
	}
	if err := cmp.Or(f.Validate(), rules.Chooses(*f, e)); err != nil {
		return nil, err
	}
	jobs, err := c.store.Find(c.ctx, sojourn.Filter{IDs: f.IDs, Limit: sojourn.MaxFind})
	if err != nil {
		return nil, err
	}
	mine := map[sojourn.ID]bool{}
	for _, j := range jobs {
		mine[j.ID] = c.who.allows(verb, j.Queue, j.Kind)
	}
	allowed := []sojourn.ID{} // not nil: nil would be no condition
	for _, id := range slices.Compact(slices.Sorted(slices.Values(f.IDs))) {
		if mine[id] {
			allowed = append(allowed, id)
		} else {
			hidden = append(hidden, id)
		}
	}
	f.IDs = allowed
	return hidden, nil
}

func startOperation(c *call, in *triage.StartOperationIn) (wire.Operation, error) {
	f, err := in.Body.Filter.Domain(time.Now())
	if err == nil {
		err = c.maySearch(f)
	}
	if err != nil {
		return wire.Operation{}, err
	}
	return onStore(triage.StartOperation)(c, in)
}
