package server

import (
	"net/http"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

type enqueueOneIn struct{ Body wire.NewJob }

func enqueueOne(c *call, in *enqueueOneIn) (wire.Enqueued, error) {
	j := in.Body.Job()
	return c.enqueueAlone(&j)
}

func (c *call) enqueueAlone(j *sojourn.Job) (wire.Enqueued, error) {
	if err := c.who.may(sojourn.VerbEnqueue, j.Queue, j.Kind); err != nil {
		return wire.Enqueued{}, err
	}
	e, err := c.client.Enqueue(c.ctx, j)
	if err != nil {
		return wire.Enqueued{}, err
	}
	if !e.Duplicate {
		c.status = http.StatusCreated
	}
	return wire.EnqueuedOf(e), nil
}

type enqueueBatchIn struct{ Body wire.EnqueueRequest }

func enqueueBatch(c *call, in *enqueueBatchIn) (wire.EnqueueAnswer, error) {
	jobs := wire.Jobs(in.Body.Jobs)
	send := make([]*sojourn.Job, len(jobs))
	for i := range jobs {
		if err := c.who.may(sojourn.VerbEnqueue, jobs[i].Queue, jobs[i].Kind); err != nil {
			return wire.EnqueueAnswer{}, sojourn.AtIndex(i, err)
		}
		send[i] = &jobs[i]
	}
	enqueue := c.client.EnqueueAll
	if in.Body.Partial {
		enqueue = c.client.EnqueuePartial
	}
	es, err := enqueue(c.ctx, send)
	return wire.EnqueueAnswer{Jobs: wire.Each(es, wire.EnqueuedOf)}, err
}

type enqueueRawIn struct {
	Kind  string `query:"kind"`
	Queue string `query:"queue"`
	Key   string `query:"key"`
	Group string `query:"group"`
}

func enqueueRaw(c *call, in *enqueueRawIn) (wire.Enqueued, error) {
	b, err := c.body()
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

func listJobs(c *call, in *wire.Filter) (wire.JobsAnswer, error) { return c.find(sojourn.Filter(*in)) }

type findJobsIn struct{ Body wire.Filter }

func findJobs(c *call, in *findJobsIn) (wire.JobsAnswer, error) {
	return c.find(sojourn.Filter(in.Body))
}

// find lists jobs. A token that may not see all of them names the queue and the kind that it looks at, or jobs by their ids, of which it then gets
// those that it may see: the others look as if they did not exist.
func (c *call) find(f sojourn.Filter) (wire.JobsAnswer, error) {
	verb := sojourn.VerbRead
	if f.Full {
		verb = sojourn.VerbReadArgs
	}
	if len(f.IDs) == 0 {
		if err := c.who.may(verb, f.Queue, f.Kind); err != nil {
			return wire.JobsAnswer{}, err
		}
	}
	if err := c.waits(f.Wait); err != nil {
		return wire.JobsAnswer{}, err
	}
	ctx, cancel := c.untilDrain()
	defer cancel()
	jobs, err := c.store.Find(ctx, f)
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

type jobIn struct {
	ID sojourn.ID `path:"id"`
}

type getJobIn struct {
	ID   sojourn.ID `path:"id"`
	Wait string     `query:"wait" doc:"a duration such as 30s, at most 60s"`
}

func getJob(c *call, in *getJobIn) (wire.JobView, error) {
	j, err := c.one(in.ID, sojourn.VerbRead)
	if err != nil || in.Wait == "" {
		return wire.View(j), err
	}
	wait, err := wire.ParseDuration(in.Wait)
	if err != nil {
		return wire.JobView{}, wrap("wait", err)
	}
	f := sojourn.Filter{IDs: []sojourn.ID{in.ID}, States: []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}, Wait: wait}
	if _, err := c.find(f); err != nil {
		return wire.JobView{}, err
	}
	j, err = c.one(in.ID, sojourn.VerbRead)
	return wire.View(j), err
}

// one gets a job that the caller may see, complete as far as it may see that too. Any other is not found.
func (c *call) one(id sojourn.ID, verb sojourn.Verb) (sojourn.Job, error) {
	jobs, err := c.store.Find(c.ctx, sojourn.Filter{IDs: []sojourn.ID{id}, Full: true})
	if err != nil {
		return sojourn.Job{}, err
	}
	if len(jobs) == 0 || !c.who.allows(verb, jobs[0].Queue, jobs[0].Kind) {
		return sojourn.Job{}, sojourn.NotFound("no job has the id %d", id)
	}
	j := jobs[0]
	if !c.who.allows(sojourn.VerbReadArgs, j.Queue, j.Kind) {
		j.Args, j.Result, j.Checkpoint, j.Response, j.Responses = nil, nil, nil, nil, nil
	}
	return j, nil
}

func getArgs(c *call, in *jobIn) (bytesAnswer, error) {
	j, err := c.one(in.ID, sojourn.VerbReadArgs)
	return bytesAnswer{j.ContentType, j.Args}, err
}

func getResult(c *call, in *jobIn) (bytesAnswer, error) {
	j, err := c.one(in.ID, sojourn.VerbReadArgs)
	if err == nil && j.State != sojourn.Completed {
		err = sojourn.NotFound("job %d is %s and has no result", j.ID, j.State)
	}
	return bytesAnswer{j.ResultType, j.Result}, err
}

// visible refuses the id of a job that the caller may not see as if there were none. Callers that may see all ask the store themselves.
func (c *call) visible(id sojourn.ID) error {
	if c.who.everywhere(sojourn.VerbRead) {
		return nil
	}
	_, err := c.one(id, sojourn.VerbRead)
	return err
}

func getHistory(c *call, in *jobIn) (wire.HistoryAnswer, error) {
	if err := c.visible(in.ID); err != nil {
		return wire.HistoryAnswer{}, err
	}
	h, err := c.store.History(c.ctx, in.ID)
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
	return c.client.Why(c.ctx, in.ID)
}

type editJobsIn struct{ Body wire.EditRequest }

func editJobs(c *call, in *editJobsIn) (wire.EditAnswer, error) {
	f, e := sojourn.Filter(in.Body.Filter), sojourn.Edit(in.Body.Edit)
	verb := sojourn.VerbOperate
	if e.Action == sojourn.EditPurge {
		verb = sojourn.VerbAdmin
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
	if err := c.mayEdit(verb, &f, e); err != nil {
		return wire.EditAnswer{}, err
	}
	edited, err := c.store.Edit(c.ctx, f, e)
	return wire.EditedOf(edited), err
}

// mayEdit holds a filter against the grants. Of ids it keeps those that the caller may edit; what it leaves out looks as if it did not exist.
func (c *call) mayEdit(verb sojourn.Verb, f *sojourn.Filter, e sojourn.Edit) error {
	if c.who.everywhere(verb) {
		return nil
	}
	if q := e.Change.Queue; q != nil {
		if err := c.who.may(verb, *q, f.Kind); err != nil {
			return err
		}
	}
	if len(f.IDs) == 0 {
		return c.who.may(verb, f.Queue, f.Kind)
	}
	jobs, err := c.store.Find(c.ctx, sojourn.Filter{IDs: f.IDs, Limit: sojourn.MaxFind})
	if err != nil {
		return err
	}
	f.IDs = nil
	for _, j := range jobs {
		if c.who.allows(verb, j.Queue, j.Kind) {
			f.IDs = append(f.IDs, j.ID)
		}
	}
	if len(f.IDs) == 0 { // no filter at all would mean every job
		return sojourn.NotFound("no job has one of these ids")
	}
	return nil
}
