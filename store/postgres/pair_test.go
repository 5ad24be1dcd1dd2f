package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
	"github.com/sojourn-queue/sojourn/workflow"
)

// TestConformanceOfTwo runs the whole suite on two stores over one database that take turns, call
// by call, as two processes behind a load balancer do (spec:B6): no result may depend on a
// process's cache.
func TestConformanceOfTwo(t *testing.T) {
	testURL(t)
	storetest.Parallel(t, func(t *testing.T, o storetest.Options) driver.Store {
		options := append(wished(o), Schema(emptySchema(t)), func(o *options) { o.poll = 20 * time.Millisecond })
		return &pair{stores: [2]driver.Store{openKept(t, options...), openKept(t, options...)}}
	})
}

// pair sends every other call to the other store.
type pair struct {
	stores [2]driver.Store
	calls  atomic.Int64
}

func (p *pair) next() driver.Store { return p.stores[p.calls.Add(1)%2] }

func (p *pair) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return p.next().Claim(ctx, r)
}

func (p *pair) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	return p.next().Extend(ctx, leases)
}

func (p *pair) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	return p.next().Save(ctx, items)
}

func (p *pair) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	return p.next().Finish(ctx, outcomes)
}

func (p *pair) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	return p.next().HoldQueue(ctx, queue, d, reason)
}

func (p *pair) EditInbox(ctx context.Context, seq int64, action string, to sojourn.Response) (sojourn.Responded, error) {
	return p.next().EditInbox(ctx, seq, action, to)
}

func (p *pair) CountInbox(ctx context.Context) (sojourn.InboxCounts, error) {
	return p.next().CountInbox(ctx)
}

func (p *pair) NearMisses(ctx context.Context, kind, key string) ([]sojourn.NearMiss, error) {
	return p.next().NearMisses(ctx, kind, key)
}

func (p *pair) Why(ctx context.Context, id sojourn.ID) (sojourn.Why, error) {
	return p.next().Why(ctx, id)
}

func (p *pair) WhyQueue(ctx context.Context, queue string) (sojourn.QueueWhy, error) {
	return p.next().WhyQueue(ctx, queue)
}

func (p *pair) DeclareQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return p.next().DeclareQueue(ctx, name, q)
}

func (p *pair) UpdateQueue(ctx context.Context, name string, c sojourn.QueuePatch) (sojourn.QueueStatus, error) {
	return p.next().UpdateQueue(ctx, name, c)
}

func (p *pair) PauseQueue(ctx context.Context, name string, paused bool, kinds ...string) (sojourn.QueueStatus, error) {
	return p.next().PauseQueue(ctx, name, paused, kinds...)
}

func (p *pair) ListQueues(ctx context.Context, after string, limit int) (sojourn.Page[sojourn.QueueStatus], error) {
	return p.next().ListQueues(ctx, after, limit)
}

func (p *pair) Workers(ctx context.Context, after string, limit int, ids ...string) ([]sojourn.WorkerStatus, error) {
	return p.next().Workers(ctx, after, limit, ids...)
}

func (p *pair) DrainWorker(ctx context.Context, worker string) error {
	return p.next().DrainWorker(ctx, worker)
}

func (p *pair) IDs(ctx context.Context, n int) (sojourn.ID, error) { return p.next().IDs(ctx, n) }

func (p *pair) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	return p.next().Enqueue(ctx, jobs, partial)
}

func (p *pair) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	return p.next().Respond(ctx, rs)
}

func (p *pair) Edit(ctx context.Context, f sojourn.Filter, e sojourn.Edit) (sojourn.Page[sojourn.Edited], error) {
	return p.next().Edit(ctx, f, e)
}

func (p *pair) Find(ctx context.Context, f sojourn.Filter) ([]sojourn.Job, error) {
	return p.next().Find(ctx, f)
}

func (p *pair) History(ctx context.Context, id sojourn.ID, after int32, limit int) ([]sojourn.HistoryEntry, error) {
	return p.next().History(ctx, id, after, limit)
}

func (p *pair) Log(ctx context.Context, id sojourn.ID) ([]sojourn.LogLine, error) {
	return p.next().Log(ctx, id)
}

func (p *pair) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	return p.next().Queues(ctx, names...)
}

func (p *pair) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) (sojourn.QueueStatus, error) {
	return p.next().SetQueue(ctx, name, q)
}

func (p *pair) ForgetQueue(ctx context.Context, name string, o sojourn.ForgetOptions) (sojourn.Forgotten, error) {
	return p.next().ForgetQueue(ctx, name, o)
}

func (p *pair) Inbox(ctx context.Context, f sojourn.InboxFilter) ([]sojourn.Response, error) {
	return p.next().Inbox(ctx, f)
}

func (p *pair) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	return p.next().Sweep(ctx, limit)
}

func (p *pair) Status(ctx context.Context) (sojourn.Status, error) { return p.next().Status(ctx) }

func (p *pair) Close() error { return errors.Join(p.stores[0].Close(), p.stores[1].Close()) }

func (p *pair) Check(ctx context.Context) ([]driver.Violation, error) {
	return p.next().(driver.Checker).Check(ctx)
}

func (p *pair) Checks() []string { return p.next().(driver.Checker).Checks() }

// Nudge makes the blocked calls of both look again.
func (p *pair) Nudge() {
	for _, s := range p.stores {
		s.(interface{ Nudge() }).Nudge()
	}
}

// TestAwaitedKeysRace lets a job of one process take a key to wait under while another stores the
// answer to it: whichever commits first, the job is resumed (rules:G2). No sweep helps.
func TestAwaitedKeysRace(t *testing.T) {
	schema := newSchema(t)
	a, b := open(t, Schema(schema), AutoMigrate()), open(t, Schema(schema), AutoMigrate())
	defer a.Close()
	defer b.Close()
	ctx := context.Background()
	early := 0
	for i := range number("SOJOURN_ROUNDS", 200) {
		if _, err := a.Enqueue(ctx, sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		jobs, err := driver.Of(a).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		key := "key " + jobs[0].Job.IdempotencyKey()
		answered := make(chan error)
		go func() {
			r, err := b.Respond(ctx, &sojourn.Response{Kind: "k", Key: key})
			if r.Outcome == sojourn.Early {
				early++
			}
			answered <- err
		}()
		wait := sojourn.Outcome{Lease: jobs[0].Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Keys: []string{key, key + " too"}}}
		_, err = driver.Of(a).Finish(ctx, []sojourn.Outcome{wait})
		if err := errors.Join(err, <-answered); err != nil {
			t.Fatal(err)
		}
		if j, err := b.Get(ctx, jobs[0].Job.ID); err != nil || !j.Resumed {
			t.Fatalf("round %d: %s %v", i, j.State, err)
		}
		done := jobs[0].Lease
		if _, err := a.Store().Edit(ctx, sojourn.Filter{IDs: []sojourn.ID{done.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d answers came first", early)
}

// TestSweepLooksAgain: a process that dies between its commit and its recheck leaves a response
// beside a job that waits for it. The next sweep of any process finds it (rules:G2).
func TestSweepLooksAgain(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("order"))); err != nil {
		t.Fatal(err)
	}
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	if _, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeAwait}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody's", Body: []byte(`"paid"`)}); err != nil {
		t.Fatal(err)
	}
	execute(t, testURL(t), "update "+schema+".sj_response set key = 'order'")
	if j, err := c.Get(ctx, jobs[0].Job.ID); err != nil || j.State != sojourn.Awaiting {
		t.Fatal(j.State, err)
	}
	if _, err := driver.Of(c).Sweep(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if j, err := c.Get(ctx, jobs[0].Job.ID); err != nil || !j.Resumed || j.Response == nil || string(j.Response.Body) != `"paid"` {
		t.Errorf("%+v %v", j, err)
	}
}

func (p *pair) workflows() workflow.Store { return workflow.StoreOf(p.next()) }

func (p *pair) StartWorkflow(ctx context.Context, w workflow.Workflow) (workflow.Status, error) {
	return p.workflows().StartWorkflow(ctx, w)
}

func (p *pair) AppendWorkflow(ctx context.Context, name string, ms []workflow.Member) (workflow.Status, error) {
	return p.workflows().AppendWorkflow(ctx, name, ms)
}

func (p *pair) ChangeWorkflow(ctx context.Context, name string, a workflow.Action, reason string) (workflow.Status, error) {
	return p.workflows().ChangeWorkflow(ctx, name, a, reason)
}

func (p *pair) Workflows(ctx context.Context, q workflow.Query) ([]workflow.Status, error) {
	return p.workflows().Workflows(ctx, q)
}

func (p *pair) WorkflowMembers(ctx context.Context, name string, q workflow.MemberQuery) ([]workflow.MemberStatus, error) {
	return p.workflows().WorkflowMembers(ctx, name, q)
}
