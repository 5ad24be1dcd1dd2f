package workflows

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/workflow"
)

const (
	qNamed     = `select name, job, state, digest from sj_member where workflow = $1 and name in (texts($2))`
	qAddMember = `insert into sj_member (job, workflow, state, digest, name) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 text)`
	qOpenOwned = `select count(*) from (select 1 from sj_workflow where owner = $1 and state = 1 limit $2) a`
)

// newMember is a member as it is stored.
type newMember struct {
	workflow.Member
	digest int64
}

// startRequest stores a workflow for a caller. What needs no transaction is computed before.
type startRequest struct {
	workflow       workflow.Workflow
	members        []newMember
	onEnd, onFirst string // templates
	digest         [sha256.Size]byte
	caller         *access.Caller
}

// memberText is what the digest of a member is computed from.
type memberText struct {
	Name  string          `json:"name"`
	Job   jobrow.Template `json:"job"`
	RunAt int64           `json:"run_at,omitempty"`
	Delay int64           `json:"delay,omitempty"`
	On    any             `json:"depends,omitempty"`
	After []string        `json:"after,omitempty"`
	Then  map[string]sojourn.OnFailure
}

// newMembers checks what can be checked without a transaction, and computes the digests.
func (s *Keeper) newMembers(ms []workflow.Member, c *access.Caller) ([]newMember, error) {
	out := make([]newMember, len(ms))
	for i, m := range ms {
		if !c.Allows(access.VerbEnqueue, m.Job.Queue, m.Job.Kind) {
			return nil, sojourn.AtIndex(i, forbidden(access.VerbEnqueue, m.Job.Queue, m.Job.Kind))
		}
		text, err := jobrow.JSONText(memberText{m.Name, jobrow.TemplateOf(m.Job), jobrow.Micros(m.Job.RunAt), int64(m.Job.Delay), m.Job.Depends, m.After, m.OnFailure})
		if err != nil {
			return nil, sojourn.AtIndex(i, sojourn.Invalid("job", "does not encode: %v", err))
		}
		sum := sha256.Sum256([]byte(text))
		out[i] = newMember{m, int64(binary.BigEndian.Uint64(sum[:8]) >> 1)}
	}
	return out, nil
}

// callback encodes the template of a callback; "" without one.
func callback(field string, j *sojourn.Job, c *access.Caller) (string, error) {
	if j == nil {
		return "", nil
	}
	if !c.Allows(access.VerbEnqueue, j.Queue, j.Kind) {
		return "", forbidden(access.VerbEnqueue, j.Queue, j.Kind)
	}
	if err := sojourn.ValidJSON(field+".args", j.ContentType, j.Args); err != nil {
		return "", err
	}
	text, err := jobrow.JSONText(jobrow.TemplateOf(j))
	if err != nil {
		return "", sojourn.Invalid(field, "does not encode: %v", err)
	}
	return text, nil
}

// StartWorkflow stores a workflow; see workflow.Store.
func (s *Keeper) StartWorkflow(ctx context.Context, w workflow.Workflow) (workflow.Status, error) {
	if err := w.Validate(s.core.Cfg.MaxBytes); err != nil {
		return workflow.Status{}, err
	}
	if s.core.Cfg.NoRoom != nil {
		if err := s.core.Cfg.NoRoom(); err != nil {
			return workflow.Status{}, err
		}
	}
	r := startRequest{workflow: w, caller: access.CallerOf(ctx)}
	var err error
	if r.onEnd, err = callback("on_end", w.EndJob, r.caller); err != nil {
		return workflow.Status{}, err
	}
	if r.onFirst, err = callback("on_first_failure", w.FailureJob, r.caller); err != nil {
		return workflow.Status{}, err
	}
	if r.members, err = s.newMembers(w.Members, r.caller); err != nil {
		return workflow.Status{}, err
	}
	var text strings.Builder
	for _, part := range []any{w.Name, w.Open, w.Keep, r.onEnd, r.onFirst, r.caller.Owner()} {
		b, err := jobrow.JSONText(part)
		if err != nil {
			return workflow.Status{}, err
		}
		text.WriteString(b + "\n")
	}
	for _, m := range r.members {
		_ = binary.Write(&text, binary.BigEndian, m.digest) // a Builder takes everything
	}
	r.digest = sha256.Sum256([]byte(text.String()))
	return s.answered(txn.Do(ctx, s.core, s.startOp, 1+len(r.members), r))
}

func (s *Keeper) answered(a answer, err error) (workflow.Status, error) {
	if err == nil {
		err = a.Err
	}
	if err != nil {
		return workflow.Status{}, err
	}
	return a.status(), nil
}

// start stores a workflow with its members, or finds that it is stored.
func (s *Keeper) start(t *txn.Tx, r startRequest) (answer, error) {
	was, err := member.Lock(t, r.workflow.Name)
	if err != nil {
		return answer{}, err
	}
	if was != nil {
		if string(was.Digest) != string(r.digest[:]) { // the digest contains the owner
			return refused(sojourn.Conflict("another workflow has the name %s; use another name, or wait until it is %v after its end", r.workflow.Name, was.Status().Keep))
		}
		return answer{row: was, duplicate: true}, nil
	}
	if r.caller != nil && r.workflow.Open {
		n, err := t.ReadInt(qOpenOwned, r.caller.Owner(), workflow.MaxOpenPerToken)
		if err != nil {
			return answer{}, err
		}
		if n >= workflow.MaxOpenPerToken {
			return refused(sojourn.Conflict("this token has %d open workflows, as many as it may; close one first", n))
		}
	}
	id, err := t.ReadInt(txn.QNextIDs, 1)
	if err != nil {
		return answer{}, err
	}
	w := &member.Row{ID: id, Name: r.workflow.Name, Owner: r.caller.Owner(), Digest: r.digest[:], State: member.StateRunning, Generation: 1, OnEnd: r.onEnd,
		OnFailure: r.onFirst, Keep: cmp.Or(r.workflow.Keep, workflow.DefaultKeep).Microseconds(), Created: t.Now, Updated: t.Now}
	if r.workflow.Open {
		w.State = member.StateOpen
	}
	if refusal, err := s.addMembers(t, w, r.members, nil, r.caller); refusal != nil || err != nil {
		return answer{Refusal: txn.Refusal{Err: refusal}}, err
	}
	if err := w.Insert(t); err != nil { // a unique violation, if another process was first, runs the transaction again
		return answer{}, err
	}
	return answer{row: w}, nil
}

// appendRequest adds members for a caller.
type appendRequest struct {
	name    string
	members []newMember
	caller  *access.Caller
}

// AppendWorkflow adds members to an open workflow; see workflow.Store.
func (s *Keeper) AppendWorkflow(ctx context.Context, name string, ms []workflow.Member) (workflow.Status, error) {
	if err := sojourn.ValidName("name", name); err != nil {
		return workflow.Status{}, err
	}
	if err := workflow.ValidMembers(ms, false, s.core.Cfg.MaxBytes); err != nil {
		return workflow.Status{}, err
	}
	if s.core.Cfg.NoRoom != nil {
		if err := s.core.Cfg.NoRoom(); err != nil {
			return workflow.Status{}, err
		}
	}
	c := access.CallerOf(ctx)
	members, err := s.newMembers(ms, c)
	if err != nil {
		return workflow.Status{}, err
	}
	return s.answered(txn.Do(ctx, s.core, s.appendOp, 1+len(ms), appendRequest{name, members, c}))
}

// stored is a member that is stored already.
type stored struct {
	job, state, digest int64
}

// add adds members to a workflow. Those that are there with the same content are skipped.
func (s *Keeper) add(t *txn.Tx, r appendRequest) (answer, error) {
	w, err := member.Lock(t, r.name)
	if err != nil {
		return answer{}, err
	}
	if refusal, err := check(t, r.caller, w, r.name, access.VerbEnqueue); refusal != nil || err != nil {
		return answer{Refusal: txn.Refusal{Err: refusal}}, err
	}
	names := sqldb.Texts{}
	for _, m := range r.members {
		names = append(append(names, m.Name), m.After...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	known := map[string]stored{}
	if err := t.Read(qNamed, func(row sqldb.Row) error { known[row.Text(0)] = stored{row.Int(1), row.Int(2), row.Int(3)}; return nil }, w.ID, names); err != nil {
		return answer{}, err
	}
	var fresh []newMember
	for i, m := range r.members {
		k, there := known[m.Name]
		if there && k.digest != m.digest {
			return refused(sojourn.AtIndex(i, sojourn.Conflict("workflow %s has a member %s with other content", w.Name, m.Name)))
		}
		if !there {
			fresh = append(fresh, m)
		}
	}
	switch {
	case len(fresh) == 0:
		return answer{row: w, duplicate: true}, nil
	case w.State != member.StateOpen:
		return refused(sojourn.Conflict("workflow %s is %s and takes no more members; start it open, and close it after the last one", w.Name, w.Status().State))
	case w.Total+int64(len(fresh)) > workflow.MaxMembers:
		return refused(sojourn.Conflict("workflow %s would have more than %d members; start another one", w.Name, workflow.MaxMembers))
	}
	if refusal, err := s.addMembers(t, w, fresh, known, r.caller); refusal != nil || err != nil {
		return answer{Refusal: txn.Refusal{Err: refusal}}, err
	}
	return answer{row: w}, w.Update(t)
}

// addMembers stores members, all or none. known has those of earlier calls that they may wait for.
func (s *Keeper) addMembers(t *txn.Tx, w *member.Row, ms []newMember, known map[string]stored, c *access.Caller) (refusal, err error) {
	if len(ms) == 0 {
		return nil, nil
	}
	jobs, at := make([]sojourn.Job, len(ms)), make(map[string]int, len(ms))
	for i, m := range ms {
		jobs[i] = *m.Job
		jobs[i].Tags, jobs[i].Workflow, jobs[i].Member, jobs[i].OnConflict = slices.Clone(m.Job.Tags), w.Name, m.Name, sojourn.ReturnError
		at[m.Name] = i
	}
	for i, m := range ms {
		for _, n := range m.After {
			if _, ok := at[n]; !ok && known[n].job == 0 {
				return sojourn.AtIndex(i, sojourn.Invalid("after", "member %s waits for %.64q, and the workflow has no member with this name", m.Name, n)), nil
			}
		}
	}
	refusal, err = s.enqueuer.StoreMembers(t, w.ID, jobs, c, func() {
		for i, m := range ms {
			jobs[i].Depends = append(slices.Clone(m.Job.Depends), dependencies(m, jobs, at, known)...)
		}
	})
	if refusal != nil || err != nil {
		return refusal, err
	}
	rows, scopes := jobrow.NewColumns(len(ms), 3, 1, 0), map[scope]bool{}
	for i, m := range ms {
		rows.Row(int64(jobs[i].ID)).Ints(w.ID, 0, m.digest).Strings(m.Name)
		scopes[scope{jobs[i].Queue, jobs[i].Kind}] = true
	}
	t.AddColumns(qAddMember, 0, "", rows)
	var ids sqldb.Ints
	var queues, kinds sqldb.Texts
	for k := range scopes {
		ids, queues, kinds = append(ids, w.ID), append(queues, k.queue), append(kinds, k.kind)
	}
	member.AddScopes(t, ids, queues, kinds)
	w.Total += int64(len(ms))
	return nil, nil
}

// dependencies turns the names that a member waits for into ids. A member whose job retention has
// deleted counts as it has ended.
func dependencies(m newMember, jobs []sojourn.Job, at map[string]int, known map[string]stored) (out []sojourn.Dependency) {
	for _, n := range m.After {
		d := sojourn.Dependency{OnFailure: m.OnFailure[n]}
		if i, ok := at[n]; ok {
			d.Jobs = []sojourn.ID{jobs[i].ID}
		} else {
			d.Jobs, d.MissingOK = []sojourn.ID{sojourn.ID(known[n].job)}, known[n].state == int64(sojourn.Completed)
		}
		out = append(out, d)
	}
	return out
}
