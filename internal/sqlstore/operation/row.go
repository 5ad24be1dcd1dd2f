package operation

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// States in sj_operation.
const (
	running   = 1
	canary    = 2
	paused    = 3
	stopped   = 4
	completed = 7
	cancelled = 9
)

var stateNames = map[int64]operation.State{running: operation.Running, canary: operation.Canary, paused: operation.Paused, stopped: operation.Stopped,
	completed: operation.Completed, cancelled: operation.Cancelled}

// spec is what sj_operation.spec has of operation.Spec.
type spec struct {
	Filter sojourn.Filter
	Edit   sojourn.Edit
	Limit  int64
	Rate   float64
	Canary int
}

// canaries are the first redriven jobs.
type canaries struct {
	Jobs   map[sojourn.ID]int32 `json:"jobs,omitempty"` // with the generations that the redrive has begun
	Passed bool                 `json:"passed,omitempty"`
}

// row is a row of sj_operation. Times are microseconds.
type row struct {
	id, owner                          string
	digest                             []byte
	spec                               spec
	state                              int64
	total, changed, unchanged, refused int64
	cursor                             int64
	canaries                           canaries
	problem, runner                    string
	lease, due                         int64
	created, updated, ended            int64
}

const (
	columns  = `o.id, o.owner, o.digest, o.spec, o.state, o.total, o.changed, o.unchanged, o.refused, o.cursor, o.canaries, o.problem, o.runner, o.lease_us, o.due_us, o.created_us, o.updated_us, o.ended_us`
	qOne     = `select ` + columns + ` from sj_operation o where o.id = $1`
	qLockOne = `select ` + columns + ` from sj_operation o where o.id = $1 /*lock o*/`
	qInsert  = `insert into sj_operation (id, owner, digest, spec, state, total, changed, unchanged, refused, cursor, canaries, problem, runner, lease_us, due_us, created_us, updated_us, ended_us)
		values ($1, $2, $3, $4, $5, $6, 0, 0, 0, 0, '', '', '', 0, $7, $8, $9, 0)`
	qUpdate = `update sj_operation set state = $1, changed = $2, unchanged = $3, refused = $4, cursor = $5, canaries = $6, problem = $7, lease_us = $8, due_us = $9, updated_us = $10,
		ended_us = $11 where id = $12`
)

func scan(r sqldb.Row) (*row, error) {
	o := &row{id: r.Text(0), owner: r.Text(1), digest: r.Bytes(2), state: r.Int(4), total: r.Int(5), changed: r.Int(6), unchanged: r.Int(7), refused: r.Int(8), cursor: r.Int(9),
		problem: r.Text(11), runner: r.Text(12), lease: r.Int(13), due: r.Int(14), created: r.Int(15), updated: r.Int(16), ended: r.Int(17)}
	if err := json.Unmarshal([]byte(r.Text(3)), &o.spec); err != nil {
		return nil, err
	}
	if text := r.Text(10); text != "" {
		return o, json.Unmarshal([]byte(text), &o.canaries)
	}
	return o, nil
}

// read reads one row by a query; nil if there is none.
func read(t *txn.Tx, q, id string) (o *row, err error) {
	err = t.Read(q, func(r sqldb.Row) (err error) { o, err = scan(r); return err }, id)
	return o, err
}

// update writes the row, which is locked, and sets when the next sweep looks at it.
func (o *row) update(t *txn.Tx) error {
	text, err := jobrow.JSONText(o.canaries)
	if err != nil {
		return err
	}
	switch o.state {
	case running, canary:
		o.ended = 0
	case paused:
		o.due, o.ended = jobrow.Never, 0
	default:
		if o.ended == 0 {
			o.ended = t.Now
		}
		o.due = o.ended + operation.Keep.Microseconds()
	}
	o.updated = max(t.Now, o.updated)
	_, err = t.Write(qUpdate, o.state, o.changed, o.unchanged, o.refused, o.cursor, text, sojourn.Cut(o.problem, sojourn.MaxReason), o.lease, o.due, o.updated, o.ended, o.id)
	return err
}

// status shows the row.
func (o *row) status() operation.Status {
	s := operation.Status{ID: o.id, State: stateNames[o.state], Action: o.spec.Edit.Action, Failure: o.spec.Filter.Failure, Total: o.total, Changed: o.changed, Unchanged: o.unchanged,
		Refused: o.refused, Problem: o.problem, Limit: o.spec.Limit, Rate: o.spec.Rate, Canary: o.spec.Canary, Owner: o.owner, By: o.spec.Edit.By, Reason: o.spec.Edit.Reason,
		CreatedAt: jobrow.Time(o.created), UpdatedAt: jobrow.Time(o.updated), EndedAt: jobrow.Time(o.ended)}
	if !o.canaries.Passed {
		s.Canaries = o.canaries.ids()
	}
	return s
}
