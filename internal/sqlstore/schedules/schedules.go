// Package schedules keeps recurring definitions and makes the jobs of their ticks.
//
// The row of a schedule has its next tick. A transaction that handles a tick locks the row, looks
// whether the tick is still the next one, stores the job, and writes the tick after it. So one tick
// makes one job, on any number of processes (inv:E1). What a schedule does with its ticks is
// decided by pure functions of package schedule.
package schedules

import (
	"cmp"
	"encoding/json"
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/schedule"
)

// Scheduler keeps the schedules of one store. Safe for concurrent use.
type Scheduler struct {
	core     *txn.Core
	enqueuer *enqueue.Enqueuer
	setOp    *txn.Op[setRequest, answer]
	changeOp *txn.Op[changeRequest, answer]
	tickOp   *txn.Op[int, int]
}

// New makes the scheduler of a store; e stores its jobs.
func New(c *txn.Core, e *enqueue.Enqueuer) *Scheduler {
	s := &Scheduler{core: c, enqueuer: e}
	s.setOp = txn.EachOp("set schedule", groupcommit.Finish, s.set)
	s.changeOp = txn.EachOp("change schedule", groupcommit.Finish, s.change)
	s.tickOp = txn.EachOp("tick", groupcommit.Claim, s.tick)
	return s
}

// answer is a schedule, or the refusal of a call, which was found before any write.
type answer struct {
	schedule schedule.Schedule
	txn.Refusal
}

func refused(err error) (answer, error) { return answer{Refusal: txn.Refusal{Err: err}}, nil }

const (
	columns = `name, queue, kind, owner, definition, declared, problem, next_us, due_us, last_tick_us, last_job, runs, skipped, revision, paused, created_us, updated_us`

	qLocked = `select ` + columns + ` from sj_schedule where name = $1 /*lock*/`
	qInsert = `insert into sj_schedule (` + columns + `, end_us) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`
	qUpdate = `update sj_schedule set queue = $1, kind = $2, owner = $3, definition = $4, declared = $5, problem = $6, next_us = $7, due_us = $8,
		last_tick_us = $9, last_job = $10, runs = $11, skipped = $12, revision = $13, paused = $14, updated_us = $15, end_us = $16 where name = $17`
	qDelete = `delete from sj_schedule where name = $1`
	qOwned  = `select count(*) from (select 1 from sj_schedule where owner = $1 limit $2) a`
)

// row is a row of sj_schedule. Times are microseconds.
type row struct {
	name, queue, kind, owner, text, declared, problem string
	next, due, lastTick, lastJob                      int64
	runs, skipped, revision                           int64
	paused                                            bool
	created, updated                                  int64
	def                                               schedule.Schedule // the input fields
}

func scan(r sqldb.Row) (d row, err error) {
	d = row{name: r.Text(0), queue: r.Text(1), kind: r.Text(2), owner: r.Text(3), text: r.Text(4), declared: r.Text(5), problem: r.Text(6),
		next: r.Int(7), due: r.Int(8), lastTick: r.Int(9), lastJob: r.Int(10), runs: r.Int(11), skipped: r.Int(12), revision: r.Int(13),
		paused: r.Int(14) != 0, created: r.Int(15), updated: r.Int(16)}
	d.def, err = decode(d.name, d.text)
	return d, err
}

// lock reads and locks the row of a schedule; nil if there is none.
func lock(t *txn.Tx, name string) (found *row, err error) {
	err = t.Read(qLocked, func(r sqldb.Row) error {
		d, err := scan(r)
		found = &d
		return err
	}, name)
	return found, err
}

func (d *row) insert(t *txn.Tx) error {
	_, err := t.Write(qInsert, d.name, d.queue, d.kind, d.owner, d.text, d.declared, d.problem, d.next, d.due, d.lastTick, d.lastJob, d.runs, d.skipped,
		d.revision, d.paused, d.created, d.updated, jobrow.Micros(d.def.End))
	return err
}

func (d *row) update(t *txn.Tx) error {
	_, err := t.Write(qUpdate, d.queue, d.kind, d.owner, d.text, d.declared, d.problem, d.next, d.due, d.lastTick, d.lastJob, d.runs, d.skipped,
		d.revision, d.paused, d.updated, jobrow.Micros(d.def.End), d.name)
	return err
}

// setDue makes the schedule due at its next tick, or never.
func (d *row) setDue() {
	if d.due = d.next; d.paused || d.next == 0 {
		d.due = jobrow.Never
	}
}

// nextAfter is the first tick after a time, in microseconds; 0 if there is none.
func (d *row) nextAfter(us int64) (int64, error) {
	ticks, err := d.def.Ticks(jobrow.Time(us), 1)
	if err != nil || len(ticks) == 0 {
		return 0, err
	}
	return ticks[0].UnixMicro(), nil
}

// show is the schedule with what the store knows.
func (d *row) show(now int64, c *access.Caller) (schedule.Schedule, error) {
	s := d.def
	job := *s.Job
	if s.Job = &job; !c.Allows(access.VerbReadArgs, d.queue, d.kind) {
		job.Args = nil
	}
	s.Text, s.Paused, s.Problem, s.LastJob, s.Runs, s.Skipped = s.Sentence(), d.paused, d.problem, sojourn.ID(d.lastJob), d.runs, d.skipped
	s.Revision, s.Owner, s.CreatedAt, s.UpdatedAt = d.revision, d.owner, jobrow.Time(d.created), jobrow.Time(d.updated)
	if d.lastTick > 0 {
		s.LastTick = jobrow.Time(d.lastTick)
	}
	var err error
	s.Next, err = s.Ticks(jobrow.Time(max(now, d.lastTick)), shown)
	return s, err
}

// shown is the number of next ticks in an answer.
const shown = 5

// stored is the JSON of a definition.
type stored struct {
	Cron    string           `json:"cron,omitempty"`
	Zone    string           `json:"zone,omitempty"`
	Every   time.Duration    `json:"every,omitempty"`
	Offset  time.Duration    `json:"offset,omitempty"`
	Jitter  time.Duration    `json:"jitter,omitempty"`
	Start   int64            `json:"start,omitempty"` // microseconds
	End     int64            `json:"end,omitempty"`
	CatchUp int              `json:"catch_up,omitempty"`
	Overlap schedule.Overlap `json:"overlap,omitempty"`
	Job     jobrow.Template  `json:"job"`
}

// encode is the text of the input fields. Equal definitions have equal texts.
func encode(s *schedule.Schedule) (string, error) {
	return jobrow.JSONText(stored{s.Cron, s.Zone, s.Every, s.Offset, s.Jitter, jobrow.Micros(s.Start), jobrow.Micros(s.End), s.CatchUp,
		cmp.Or(s.Overlap, schedule.OverlapAllow), jobrow.TemplateOf(s.Job)})
}

// decode reads what encode has written.
func decode(name, text string) (s schedule.Schedule, err error) {
	var d stored
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return s, err
	}
	s = schedule.Schedule{Name: name, Cron: d.Cron, Zone: d.Zone, Every: d.Every, Offset: d.Offset, Jitter: d.Jitter, CatchUp: d.CatchUp, Overlap: d.Overlap, Job: d.Job.Job()}
	if d.Start != 0 {
		s.Start = jobrow.Time(d.Start)
	}
	if d.End != 0 {
		s.End = jobrow.Time(d.End)
	}
	return s, nil
}

// later is d after us, without overflow.
func later(us int64, d time.Duration) int64 {
	if us > math.MaxInt64-d.Microseconds() {
		return jobrow.Never
	}
	return us + d.Microseconds()
}
