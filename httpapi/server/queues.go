package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

type listQueuesIn struct {
	Names []string `query:"name" doc:"only these, all in one page"`
	After string   `query:"after" doc:"the last name of the page before: next of its answer"`
	Limit int      `query:"limit" doc:"1 to 1,000; default 100"`
}

func listQueues(c *call, in *listQueuesIn) (wire.QueuesAnswer, error) {
	if len(in.Names) == 0 {
		p, err := c.store.ListQueues(c.ctx, in.After, in.Limit) // it leaves out what the caller may not see
		return wire.QueuesAnswer{Queues: append([]sojourn.QueueStatus{}, p.Items...), Next: p.Next}, err
	}
	if len(in.Names) > sojourn.MaxFind {
		return wire.QueuesAnswer{}, sojourn.Invalid("name", "%d names exceed the limit of %d a call", len(in.Names), sojourn.MaxFind)
	}
	for _, name := range in.Names { // as if it did not exist
		if !c.who.sees(name) {
			return wire.QueuesAnswer{}, sojourn.NotFound("there is no queue %.64q", name)
		}
	}
	queues, err := c.store.Queues(c.ctx, in.Names...)
	unseen := func(q sojourn.QueueStatus) bool { return !c.who.sees(q.Name) }
	return wire.QueuesAnswer{Queues: slices.DeleteFunc(append([]sojourn.QueueStatus{}, queues...), unseen)}, err
}

type changeQueueIn[B any] struct {
	Queue string `path:"queue"`
	Body  B
}

// changeQueue is an operation that makes of its body a change of a queue.
func changeQueue[B any](change func(s sojourn.Store, ctx context.Context, name string, body B) (sojourn.QueueStatus, error)) func(*call, *changeQueueIn[B]) (sojourn.QueueStatus, error) {
	return func(c *call, in *changeQueueIn[B]) (sojourn.QueueStatus, error) {
		c.detail = in.Body
		if err := c.who.may(access.VerbAdmin, in.Queue, ""); err != nil {
			return sojourn.QueueStatus{}, err
		}
		return change(c.store, c.ctx, in.Queue, in.Body)
	}
}

func pausing(s sojourn.Store, ctx context.Context, name string, p wire.PauseRequest) (sojourn.QueueStatus, error) {
	return s.PauseQueue(ctx, name, p.Paused, p.Kinds...)
}

type queueIn struct {
	Queue string `path:"queue"`
}

func forgetQueue(c *call, in *wire.ForgetQuery) (f sojourn.Forgotten, err error) {
	if err = c.who.may(access.VerbAdmin, in.Queue, ""); err == nil {
		f, err = c.store.ForgetQueue(c.ctx, in.Queue, in.Options(c.who.by(in.By)))
		c.detail = f
	}
	return f, err
}

type holdQueueIn struct {
	Queue string `path:"queue"`
	Body  wire.HoldRequest
}

func holdQueue(c *call, in *holdQueueIn) (wire.Empty, error) {
	c.detail = in.Body
	if err := c.who.may(access.VerbOperate, in.Queue, ""); err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, c.store.HoldQueue(c.ctx, in.Queue, in.Body.For, in.Body.Reason)
}

func whyQueue(c *call, in *queueIn) (sojourn.QueueWhy, error) {
	if err := c.who.may(access.VerbRead, in.Queue, ""); err != nil {
		return sojourn.QueueWhy{}, err
	}
	return c.client.Queues().Why(c.ctx, in.Queue)
}

func unsupported() error {
	return wire.Refusal(wire.CodeUnimplemented, "the store behind this server cannot do that")
}

type nothingIn struct{}

// getStatus shows the location of the store, a path or a database address, only to admins.
func getStatus(c *call, _ *nothingIn) (sojourn.Status, error) {
	status, err := c.store.Status(c.ctx)
	if !c.who.everywhere(access.VerbAdmin) {
		status.Location = ""
	}
	return status, err
}

type sweepIn struct{ Body wire.SweepRequest }

// sweep needs only the verb work: every worker and the server sweep every few seconds, and a sweep
// has no choices. It is not in the audit log, which it would fill.
func sweep(c *call, in *sweepIn) (driver.Swept, error) {
	return c.store.Sweep(c.ctx, in.Body.Limit)
}

func check(c *call, _ *nothingIn) (wire.CheckAnswer, error) {
	if err := c.who.may(access.VerbAdmin, "", ""); err != nil {
		return wire.CheckAnswer{}, err
	}
	checker, ok := c.store.(driver.Checker)
	if !ok {
		return wire.CheckAnswer{}, unsupported()
	}
	violations, err := checker.Check(c.ctx)
	return wire.CheckAnswer{Checks: checker.Checks(), Violations: violations}, err
}

func repair(c *call, _ *nothingIn) (wire.RepairAnswer, error) {
	if err := c.who.may(access.VerbAdmin, "", ""); err != nil {
		return wire.RepairAnswer{}, err
	}
	r, ok := c.store.(driver.Repairer)
	if !ok {
		return wire.RepairAnswer{}, unsupported()
	}
	found, err := r.Repair(c.ctx)
	c.detail = found
	return wire.RepairAnswer{Repaired: append([]driver.Violation{}, found...)}, err
}

// serveFile serves a file that is part of the program.
func serveFile(contentType string, body func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body())
	}
}
