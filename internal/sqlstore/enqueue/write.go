package enqueue

import (
	"cmp"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/tag"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	// qInsertJob fails if an id was used meanwhile, and with it the transaction, which is repeated.
	// On PostgreSQL it costs a third of qAddJob, which looks up each id before it writes the row,
	// and marks the row once more after it.
	qInsertJob = `insert into sj_job (id, orig_run_at_us, created_us, kind, key, grp, content_type, tags, meta, policy, origin, digest, args)
		rows($1 bigint, $2 bigint, $3 bigint, $4 text, $5 text, $6 text, $7 text, $8 text, $9 text, $10 text, $11 text, $12 bytea, $13 bytea)`
	// qAddJob is for transactions of the application, which may continue after a conflict.
	qAddJob = qInsertJob + ` on conflict (id) do nothing /*hit id*/`
)

// WriteJobs writes the calls that were planned since the last time.
func (b *Batch) WriteJobs() error {
	plans := b.plans
	b.plans = nil
	if len(plans) == 0 {
		return nil
	}
	var fresh []*sojourn.Job
	var contents [][]byte // digests of fresh
	var reused []txn.KindKey
	linked := map[sojourn.ID]link(nil)
	// The settings by which a job was resolved are validated. Those of a refused job do not count:
	// a queue that only it names is not created.
	assume := func(j *sojourn.Job) { b.AssumeSettings(j.Queue, b.Rows[j.Queue].Layout) }
	for _, p := range plans {
		for _, i := range p.fresh {
			fresh, contents = append(fresh, &p.jobs[i]), append(contents, p.digests[i][:])
			assume(&p.jobs[i])
		}
		for _, i := range p.replaced {
			assume(&p.jobs[i])
		}
		if p.linked != nil { // planLinks has written the calls before it
			linked = p.linked
		}
		reused = append(reused, p.reused...)
	}
	if err := b.takeKeys(fresh, reused); err != nil {
		return err
	}
	if err := b.insertJobs(fresh, contents, linked); err != nil {
		return err
	}
	b.insertQueues(plans)
	for _, p := range plans {
		if err := b.replace(p); err != nil {
			return err
		}
		if p.linked != nil {
			if err := p.links.Write(b.Tx); err != nil {
				return err
			}
		}
	}
	for k, h := range b.Holders {
		if h.Pending {
			h.Pending = false
			b.Holders[k] = h
		}
	}
	return nil
}

// takeKeys gives the jobs to be inserted their keys, in the same order in all transactions.
func (b *Batch) takeKeys(fresh []*sojourn.Job, reused []txn.KindKey) error {
	slices.SortFunc(reused, func(x, y txn.KindKey) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Key, y.Key)) })
	if err := b.lockReused(reused); err != nil {
		return err
	}
	for _, k := range reused {
		if err := lifecycle.RememberHolder(b.Tx, k.Kind, k.Key, 0); err != nil {
			return err
		}
	}
	keyed := slices.DeleteFunc(slices.Clone(fresh), func(j *sojourn.Job) bool { return j.Key == "" })
	slices.SortFunc(keyed, func(x, y *sojourn.Job) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Key, y.Key)) })
	s := jobrow.NewColumns(len(keyed), 3, 2, 0)
	for _, j := range keyed {
		s.Row(int64(j.ID)).Ints(1, 1, 0).Strings(j.Kind, j.Key)
	}
	take, wanted := lifecycle.QTakeKey, len(keyed)
	if b.Cache.Validators != nil {
		take, wanted = lifecycle.QNewKey, 0
	}
	b.AddColumns(take, wanted, "a key was taken meanwhile", s)
	return nil
}

// lockReused locks keys that final jobs have left, in order, and checks that they are still free.
func (b *Batch) lockReused(keys []txn.KindKey) error {
	if !b.Concurrent() {
		return nil
	}
	for _, k := range keys {
		free := true
		err := b.Read(lifecycle.QLockKey, func(r sqldb.Row) error {
			free = r.Int(1) == 0 && r.Int(2) <= b.Now || b.Ending != nil && r.Int(0) == int64(b.Ending.ID)
			return nil
		}, k.Kind, k.Key)
		if err == nil && !free {
			err = txn.Raced("a key was taken meanwhile")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertJobs adds the rows of new jobs to the write set. The live rows stay pending, so that a
// claim of this transaction can start them.
func (b *Batch) insertJobs(fresh []*sojourn.Job, contents [][]byte, linked map[sojourn.ID]link) error {
	n := len(fresh)
	s := jobrow.NewColumns(n, 2, 8, 2)
	b.Writes.Inserts = slices.Grow(b.Writes.Inserts, n)
	var policies jobrow.PolicyText
	var tags tag.Rows
	var fields field.Rows
	for i, j := range fresh {
		text, err := describe(j, &policies)
		if err != nil {
			return err
		}
		origin := ""
		if b.Ticks || b.Workflow != 0 {
			if origin, err = jobrow.OriginOf(j); err != nil {
				return err
			}
		}
		runAt := j.RunAt.UnixMicro()
		s.Row(int64(j.ID)).Ints(runAt, b.Now).Strings(j.Kind, j.Key, j.Group, j.ContentType, text.tags, text.meta, text.policy, origin).Bytes(contents[i], j.Args)
		tags.Add(b.Tx, j.ID, j.Tags)
		fields.Add(j.Queue, b.Rows[j.Queue].Index, j.ID, field.SourceOf(j, text.meta))
		l := b.newRow(j)
		if linked != nil {
			linked[j.ID].on(l)
		}
		l.PolicyJSON = text.policy
		if l.Policy, err = b.Core.Caches.Decoder.Policy(text.policy); err != nil {
			return err
		}
		b.AddInsert(l, txn.JobColumns{Group: j.Group, ContentType: j.ContentType, Tags: text.tags, Meta: text.meta, OrigRunAt: runAt, Created: b.Now, Origin: origin, Args: j.Args})
	}
	add, wanted := qAddJob, n
	if _, own := b.Conn.(sqldb.Committer); own {
		add, wanted = qInsertJob, 0
	}
	b.AddColumns(add, wanted, "an id was used meanwhile", s)
	tags.Write(b.Tx)
	fields.Write(b.Tx)
	return nil
}

// newRow is the live row of a new job.
func (b *Batch) newRow(j *sojourn.Job) *jobrow.Row {
	l := &jobrow.Row{Queue: j.Queue, Kind: j.Kind, Key: j.Key, Group: j.Group, Priority: j.Priority, Generation: 1,
		RunAt: lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy)}
	l.ID, l.State, l.Weight, l.Workflow = j.ID, b.startState(j), j.Weight, b.Workflow
	l.Deadline = DeadlineOf(b.Tx, j.Policy)
	l.SetRank(b.Rows[j.Queue].QueueSettings)
	return l
}

// DeadlineOf is the time of a policy's deadline for a job that is stored now; 0 for none.
func DeadlineOf(t *txn.Tx, p sojourn.Policy) int64 {
	if p.Deadline == 0 {
		return 0
	}
	return t.Now + p.Deadline.Microseconds()
}

const qReplaceJob = `update sj_job set grp = $1, content_type = $2, tags = $3, meta = $4, policy = $5, orig_run_at_us = $6, args = $7 where id = $8`

// replace gives jobs that were never claimed the values of the newer jobs with their keys.
func (b *Batch) replace(p *callPlan) error {
	for _, i := range p.replaced {
		j, id := &p.jobs[i], p.done[i].ID
		text, err := describe(j, &jobrow.PolicyText{})
		if err != nil {
			return err
		}
		was, err := b.LoadOne(id)
		if err == nil && was == nil {
			err = txn.Raced("a job ended before it was replaced")
		}
		if err != nil {
			return err
		}
		if _, err := b.Write(qReplaceJob, j.Group, j.ContentType, text.tags, text.meta, text.policy, j.RunAt.UnixMicro(), j.Args, int64(id)); err != nil {
			return err
		}
		if err := tag.Set(b.Tx, id, j.Tags); err != nil {
			return err
		}
		if err := field.Set(b.Tx, j.Queue, b.Rows[j.Queue].Index, int64(id)); err != nil {
			return err
		}
		l := *was
		l.Queue, l.Group, l.Priority, l.Weight, l.RunAt, l.State = j.Queue, j.Group, j.Priority, j.Weight, lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy), b.startState(j)
		l.Policy, l.Deadline = j.Policy, DeadlineOf(b.Tx, j.Policy)
		if was.State == sojourn.Blocked {
			if err := edge.Forget(b.Tx, sqldb.Ints{int64(id)}); err != nil {
				return err
			}
		}
		l.WaitsFor = 0
		p.linked[id].on(&l)
		tr := rules.Transition{Rule: "N6", To: l.Row, Outcome: "replaced"}
		lifecycle.AddHistory(b.Tx, was, &l, tr, lifecycle.Change{By: p.caller.Owner()})
		if err := b.Save(was, &l); err != nil {
			return err
		}
	}
	return nil
}

// described holds the fields of a job that are stored as JSON.
type described struct{ tags, meta, policy string }

// describe encodes the fields of a job that are stored as JSON. Equal policies are encoded once.
func describe(j *sojourn.Job, policies *jobrow.PolicyText) (d described, err error) {
	if len(j.Tags) > 0 {
		if d.tags, err = jobrow.JSONText(j.Tags); err != nil {
			return d, err
		}
	}
	if len(j.Meta) > 0 {
		if d.meta, err = jobrow.JSONText(j.Meta); err != nil {
			return d, err
		}
	}
	d.policy, err = policies.Of(&j.Policy)
	return d, err
}
