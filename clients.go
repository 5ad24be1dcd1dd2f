package sojourn

import (
	"context"
	"iter"
	"strconv"
	"time"
)

// Page is a page of a list.
type Page[T any] struct {
	Items []T
	Next  string // the After of the filter for the next page, "" if this is the last one
	Total int    // of EditAll with DryRun: the jobs that the filter matches, on all pages
}

// pages walks through a list from page to page.
func pages[T any](after string, list func(after string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			p, err := list(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if after = p.Next; after == "" {
				return
			}
		}
	}
}

// pageOf reads a page of at most limit items (0 = 100), and one more to know whether there is a
// next page. cursor is the cursor of an item.
func pageOf[T any](limit int, read func(limit int, after string) ([]T, error), after string, cursor func(*T) string) (p Page[*T], err error) {
	if limit == 0 {
		limit = 100
	}
	most := min(limit+1, MaxFind)
	items, err := read(most, after)
	if err != nil {
		return p, err
	}
	for i := range items[:min(len(items), limit)] {
		p.Items = append(p.Items, &items[i])
	}
	more := len(items) > limit
	if len(items) == limit && most == limit { // the store reads no more in one call
		rest, err := read(1, cursor(&items[limit-1]))
		if err != nil {
			return Page[*T]{}, err
		}
		more = len(rest) > 0
	}
	if more {
		p.Next = cursor(p.Items[limit-1])
	}
	return p, nil
}

// Jobs are the calls about stored jobs. Safe for concurrent use.
type Jobs struct{ c *Client }

// Jobs returns the calls about stored jobs.
func (c *Client) Jobs() Jobs { return Jobs{c} }

// List returns a page of jobs, ordered by id (Newest: descending). Without f.Full they lack args,
// result, checkpoint and responses.
func (j Jobs) List(ctx context.Context, f Filter) (Page[*Job], error) {
	if err := f.Validate(); err != nil {
		return Page[*Job]{}, err
	}
	if f.Next || f.Wait > 0 {
		return Page[*Job]{}, Invalid("filter", "a list takes neither next nor wait: use Peek or Client.Wait")
	}
	read := func(limit int, after string) ([]Job, error) {
		f.Limit, f.After = limit, after
		return j.c.store.Find(ctx, f)
	}
	return pageOf(f.Limit, read, f.After, func(job *Job) string { return job.ID.String() })
}

// All walks through all jobs that f finds, in the order of List; f.Limit is the size of a page. It
// ends with the first error. Jobs that change meanwhile may be missing.
func (j Jobs) All(ctx context.Context, f Filter) iter.Seq2[*Job, error] {
	return pages(f.After, func(after string) (Page[*Job], error) {
		f.After = after
		return j.List(ctx, f)
	})
}

// Peek returns up to n jobs of a queue in the order of claims, without claiming them: ready ones
// and those that the next claim makes ready. If there are fewer, the next tick of each schedule of
// the queue follows as a Virtual job. n is 1 to MaxFind; 0 = 100.
func (j Jobs) Peek(ctx context.Context, queue string, n int) ([]*Job, error) {
	jobs, err := j.c.store.Find(ctx, Filter{Queue: queue, Next: true, Limit: n})
	out := make([]*Job, len(jobs))
	for i := range jobs {
		out[i] = &jobs[i]
	}
	return out, err
}

// History returns all kept history entries of a job, oldest first; see MaxHistory.
func (j Jobs) History(ctx context.Context, id ID) ([]HistoryEntry, error) {
	return j.HistoryPage(ctx, id, 0, MaxFind)
}

// HistoryPage returns a page of the history of a job, oldest first. after is the Seq of the last
// entry of the page before; 0 = from the first. limit is 1 to MaxFind; 0 = 100.
func (j Jobs) HistoryPage(ctx context.Context, id ID, after int32, limit int) ([]HistoryEntry, error) {
	return j.c.store.History(ctx, id, after, limit)
}

// Log returns a job's own log lines, oldest first.
func (j Jobs) Log(ctx context.Context, id ID) ([]LogLine, error) { return j.c.store.Log(ctx, id) }

// Why reports whether a job can be claimed now and, if not, why not. ErrNotFound if there is none.
func (j Jobs) Why(ctx context.Context, id ID) (Why, error) { return j.c.store.Why(ctx, id) }

// Cancel is Client.Cancel.
func (j Jobs) Cancel(ctx context.Context, id ID, reason string) error {
	return j.edit(ctx, id, Edit{Action: EditCancel, Reason: reason})
}

// Fail ends one job as failed, even a running one, at once. Failing a failed job is no error;
// ErrConflict if the job ended otherwise.
func (j Jobs) Fail(ctx context.Context, id ID, reason string) error {
	return j.edit(ctx, id, Edit{Action: EditFail, Reason: reason})
}

// Redrive runs one failed or cancelled job again, in the next generation. A repeated call may run
// it once more; Edit with a Generation prevents that. ErrConflict for any other job.
func (j Jobs) Redrive(ctx context.Context, id ID) error {
	return j.edit(ctx, id, Edit{Action: EditRedrive})
}

// Release ends the lease of a running job: it is ready again, and its attempt goes on with the next
// claim. The worker learns it with its next Extend, and its report is refused. ErrConflict if the
// job does not run. A repeated call may end the lease of the next claim.
func (j Jobs) Release(ctx context.Context, id ID, reason string) error {
	return j.edit(ctx, id, Edit{Action: EditRelease, Reason: reason})
}

// Purge deletes one final job. Its id is never used again. ErrConflict while it is live.
func (j Jobs) Purge(ctx context.Context, id ID) error {
	return j.edit(ctx, id, Edit{Action: EditPurge})
}

// Tag adds tags to a job in any state. A handler that runs does not see them.
func (j Jobs) Tag(ctx context.Context, id ID, tags ...string) error {
	return j.edit(ctx, id, Edit{Action: EditChange, AddTags: &tags})
}

// Untag removes tags from a job in any state. Tags that it does not have are no error.
func (j Jobs) Untag(ctx context.Context, id ID, tags ...string) error {
	return j.edit(ctx, id, Edit{Action: EditChange, RemoveTags: &tags})
}

// Clone stores a new job with the args of a live or ended job; see Job.Clone. A call repeated after
// an unknown outcome creates another job; to avoid that, Get the job and Enqueue its Clone.
// ErrConflict if the key still belongs to another job: give another one with Key.
func (j Jobs) Clone(ctx context.Context, id ID, options ...Option) (Enqueued, error) {
	job, err := j.c.Get(ctx, id)
	if err != nil {
		return Enqueued{}, err
	}
	return j.c.Enqueue(ctx, job.Clone(options...))
}

// Edit cancels, fails, redrives, purges or changes one job. ErrNotFound if there is no such job;
// ErrConflict if its state does not allow the action.
func (j Jobs) Edit(ctx context.Context, id ID, e Edit) (Edited, error) {
	edited, err := j.EditAll(ctx, Filter{IDs: []ID{id}}, e)
	switch {
	case err != nil:
		return Edited{}, err
	case len(edited.Items) == 0:
		return Edited{}, NotFound("no job has the id %d", id)
	}
	return edited.Items[0], edited.Items[0].Err
}

func (j Jobs) edit(ctx context.Context, id ID, e Edit) error {
	_, err := j.Edit(ctx, id, e)
	return err
}

// EditAll edits the jobs that f finds, at most MaxFind a call, in the order of List; the next page
// has the others. One refusal does not stop the others.
func (j Jobs) EditAll(ctx context.Context, f Filter, e Edit) (Page[Edited], error) {
	if e.By == "" {
		e.By = j.c.by
	}
	return j.c.store.Edit(ctx, f, e)
}

// Queues are the calls about queues. Safe for concurrent use.
type Queues struct{ c *Client }

// Queues returns the calls about queues.
func (c *Client) Queues() Queues { return Queues{c} }

// Get returns a queue with its settings and counts. ErrNotFound if it does not exist.
func (q Queues) Get(ctx context.Context, queue string) (QueueStatus, error) {
	found, err := q.c.store.Queues(ctx, queue)
	if err != nil {
		return QueueStatus{}, err
	}
	if len(found) == 0 {
		return QueueStatus{}, NotFound("there is no queue %.64q", queue)
	}
	return found[0], nil
}

// List returns the named queues, or all, with counts, in the order in which they were first seen.
// ErrNotFound if a named queue does not exist. The counts are maintained, so no jobs are read.
func (q Queues) List(ctx context.Context, names ...string) ([]QueueStatus, error) {
	return q.c.store.Queues(ctx, names...)
}

// All walks through all queues from page to page. It ends with the first error.
func (q Queues) All(ctx context.Context) iter.Seq2[QueueStatus, error] {
	return pages("", func(after string) (Page[QueueStatus], error) { return q.c.store.ListQueues(ctx, after, 0) })
}

// DeclareQueue stores what a program wants a queue to be, and creates the queue if needed. A zero
// field is the default, also if it was declared otherwise before; s has no pauses. What an operator
// has set or paused stays: see Overrides in the result, which has no counts. The same declaration
// writes nothing. ErrConflict if s does not fit with an operator's settings (shares need a limit).
func (c *Client) DeclareQueue(ctx context.Context, queue string, s QueueSettings) (QueueStatus, error) {
	return c.store.DeclareQueue(ctx, queue, s)
}

// Update changes single settings for an operator, and creates the queue if needed. They stay in
// force, whatever programs declare, until they are reset. The result has no counts.
func (q Queues) Update(ctx context.Context, queue string, p QueuePatch) (QueueStatus, error) {
	return q.c.store.UpdateQueue(ctx, queue, p)
}

// Pause stops handing out jobs of a queue, or of these kinds in it, until Resume. It is not a
// setting: neither a declaration nor an update ends it. ErrNotFound if there is no such queue.
func (q Queues) Pause(ctx context.Context, queue string, kinds ...string) error {
	_, err := q.c.store.PauseQueue(ctx, queue, true, kinds...)
	return err
}

// Resume ends a pause of the queue, or those of these kinds; kinds and queue are paused separately.
func (q Queues) Resume(ctx context.Context, queue string, kinds ...string) error {
	_, err := q.c.store.PauseQueue(ctx, queue, false, kinds...)
	return err
}

// Set makes s the settings in force, with its pauses: what differs from the declared settings
// becomes the operator's. It creates the queue if needed. Update changes single settings.
func (q Queues) Set(ctx context.Context, queue string, s QueueSettings) error {
	_, err := q.c.store.SetQueue(ctx, queue, s)
	return err
}

// Hold stops starts in a queue for d, up to MaxHold, and replaces an earlier hold. The reason is
// shown. ErrNotFound if there is no such queue. Handlers return [Hold] instead.
func (q Queues) Hold(ctx context.Context, queue string, d time.Duration, reason string) error {
	return q.c.store.HoldQueue(ctx, queue, d, reason)
}

// Unhold ends a hold at once.
func (q Queues) Unhold(ctx context.Context, queue string) error {
	return q.c.store.HoldQueue(ctx, queue, 0, "")
}

// Why reports which gates hold the jobs of a queue back. ErrNotFound if it does not exist.
func (q Queues) Why(ctx context.Context, queue string) (QueueWhy, error) {
	return q.c.store.WhyQueue(ctx, queue)
}

// Forget removes a queue and its settings. ErrConflict while it has jobs or schedules, unless
// o.Force is set: then it deletes the schedules, cancels the live jobs and purges all jobs, a slice
// after the other, until the queue is gone or only young jobs are left (Forgotten.Young). It may be
// interrupted and repeated at any time; a repeat does the rest. An error comes with what was done
// before it. ErrNotFound: there is no such queue.
func (q Queues) Forget(ctx context.Context, queue string, o ForgetOptions) (Forgotten, error) {
	var all Forgotten
	if o.By == "" {
		o.By = q.c.by
	}
	for {
		f, err := q.c.store.ForgetQueue(ctx, queue, o)
		all.add(f)
		if err != nil || !f.More {
			return all, err
		}
	}
}

// Inbox are the calls about stored responses. Safe for concurrent use.
type Inbox struct{ c *Client }

// Inbox returns the calls about stored responses.
func (c *Client) Inbox() Inbox { return Inbox{c} }

// List returns a page of responses, newest first.
func (i Inbox) List(ctx context.Context, f InboxFilter) (Page[*Response], error) {
	if err := f.Validate(); err != nil {
		return Page[*Response]{}, err
	}
	read := func(limit int, after string) ([]Response, error) {
		f.Limit, f.After = limit, after
		return i.c.store.Inbox(ctx, f)
	}
	return pageOf(f.Limit, read, f.After, func(r *Response) string { return strconv.FormatInt(r.Seq, 10) })
}

// All walks through all responses that f finds, newest first; f.Limit is the size of a page. It
// ends with the first error.
func (i Inbox) All(ctx context.Context, f InboxFilter) iter.Seq2[*Response, error] {
	return pages(f.After, func(after string) (Page[*Response], error) {
		f.After = after
		return i.List(ctx, f)
	})
}

// Counts counts the responses in the inbox, and recent responses by source.
func (i Inbox) Counts(ctx context.Context) (InboxCounts, error) { return i.c.store.CountInbox(ctx) }

// NearMisses finds up to MaxNearMisses keys, of live jobs of a kind and of responses without a job,
// that differ from key in case, separators, leading zeros or one character.
func (i Inbox) NearMisses(ctx context.Context, kind, key string) ([]NearMiss, error) {
	return i.c.store.NearMisses(ctx, kind, key)
}

// Match sends the response seq to the Job of to, or to the job that has its Kind and Key, now or
// later. It returns the result of the new response; a repeated call is a duplicate. ErrNotFound if
// there is no such response; ErrConflict if a job has it or will get it automatically.
func (i Inbox) Match(ctx context.Context, seq int64, to Response) (Responded, error) {
	return i.edit(ctx, seq, InboxMatch, to)
}

// Retry sends the response seq again to its original address. Errors as for Match.
func (i Inbox) Retry(ctx context.Context, seq int64) (Responded, error) {
	return i.edit(ctx, seq, InboxRetry, Response{})
}

// Discard marks the response seq as discarded; a job that keeps it loses it. Errors as for Match.
func (i Inbox) Discard(ctx context.Context, seq int64) (Responded, error) {
	return i.edit(ctx, seq, InboxDiscard, Response{})
}

func (i Inbox) edit(ctx context.Context, seq int64, action string, to Response) (Responded, error) {
	to.By = i.c.by
	return i.c.store.EditInbox(ctx, seq, action, to)
}

// Workers are the calls about workers, of all processes. Safe for concurrent use.
type Workers struct{ c *Client }

// Workers returns the calls about workers.
func (c *Client) Workers() Workers { return Workers{c} }

// Get returns one worker. ErrNotFound if it was not seen within WorkerLife and holds no lease.
func (w Workers) Get(ctx context.Context, id string) (WorkerStatus, error) {
	found, err := w.c.store.Workers(ctx, "", 0, id)
	if err != nil {
		return WorkerStatus{}, err
	}
	if len(found) == 0 {
		return WorkerStatus{}, NotFound("there is no worker %.64q", id)
	}
	return found[0], nil
}

// All walks through the workers seen within WorkerLife and those that hold leases, in the order of
// their ids. It ends with the first error.
func (w Workers) All(ctx context.Context) iter.Seq2[WorkerStatus, error] {
	return pages("", func(after string) (p Page[WorkerStatus], err error) {
		if p.Items, err = w.c.store.Workers(ctx, after, MaxFind); len(p.Items) == MaxFind {
			p.Next = p.Items[MaxFind-1].Worker
		}
		return p, err
	})
}

// Drain gives a worker no more jobs; its running jobs continue under their leases. It cannot be
// undone: start another worker. ErrNotFound if All does not list it.
func (w Workers) Drain(ctx context.Context, id string) error {
	return w.c.store.DrainWorker(ctx, id)
}

// DependOn adds dependencies to a blocked job. ErrConflict if it is not blocked, or if they would
// close a cycle, which the error names.
func (j Jobs) DependOn(ctx context.Context, id ID, ds ...Dependency) error {
	return j.edit(ctx, id, Edit{Action: EditChange, DependOn: &ds})
}

// Undepend removes dependencies of a blocked job on these jobs, or all if none is named. With the
// last one it is released.
func (j Jobs) Undepend(ctx context.Context, id ID, parents ...ID) error {
	if parents == nil {
		parents = []ID{}
	}
	return j.edit(ctx, id, Edit{Action: EditChange, Undepend: &parents})
}
