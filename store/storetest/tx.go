package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Application is a program with rows of its own in the store's database: a table with one integer
// column.
type Application struct {
	Store driver.Store // also a driver.TxStore
	// Begin begins a transaction that may write, waiting for its turn where only one may at a time.
	// It is called from several goroutines.
	Begin func() (Tx, error)
	// Rows lists the numbers in the application's table, ascending, as a transaction of its own
	// sees them.
	Rows func(t *testing.T) []int64
}

// Tx is a transaction of the application.
type Tx struct {
	Handle any // the argument of EnqueueTx, such as a *sql.Tx
	// Insert writes a number into the application's table.
	Insert   func(n int64) error
	Commit   func() error
	Rollback func() error
}

// RunTx checks a store that is a driver.TxStore. open makes a new, empty one each time it is
// called, beside an empty table of the application. The suite closes the store.
func RunTx(t *testing.T, open func(t *testing.T, o Options) Application) {
	for _, c := range txTrials {
		t.Run(c.name, func(t *testing.T) {
			var app Application
			kit.Trial{Name: c.name, Law: c.law, Covers: c.covers, Run: func(s *kit.Scene) { c.run(&txScene{s, app}) }}.Play(t,
				opening(func(t *testing.T, o Options) driver.Store {
					app = open(t, o)
					return app.Store
				}))
		})
	}
}

type txTrial struct {
	name, law, covers string
	run               func(s *txScene)
}

var txTrials = []txTrial{
	{"a commit", "Jobs and the application's rows appear together, at the commit and not before.", "inv:A8", txCommit},
	{"a rollback", "After a rollback nothing is left: no job, no key, no queue. The same jobs may be enqueued again.", "inv:A8 rules:F3", txRollback},
	{"ids of a rollback", "An id that a rolled back transaction has used never makes two jobs of one, nor one of two.", "inv:A8 rules:F3 inv:U1", txIDs},
	{"a key of a live job", "A key that is taken answers as in Enqueue; a refusal leaves the transaction and what it did before as they are.",
		"inv:A8 rules:F4 tr:N5 inv:U1", txKeyTaken},
	{"one key twice in a transaction", "Uniqueness holds inside of one call and of one transaction.", "inv:A8 inv:U1 spec:P10", txKeyTwice},
	{"replace", "Replaced values come with the commit, and go with a rollback.", "inv:A8 tr:N6", txReplace},
	{"callers", "Ids and keys of other callers are refused inside of a transaction too, and drawn ids may stand beside leased ones.",
		"inv:A8 tr:N4 tr:N5 rules:F2", txCallers},
	{"a refusal", "A job that is refused stores none of its call, and the transaction goes on.", "inv:A8 spec:P10", txRefused},
	{"times and queues", "Delays count by the store's clock, and a queue exists once the first transaction that names it is committed.", "inv:A8 tr:N3", txTimes},
	{"many", "A transaction takes as many jobs as a call may have; their order is that of the answers.", "inv:A8 spec:P10", txMany},
	{"bytes", "What passes through a transaction comes out byte for byte.", "inv:A8 inv:N1", txBytes},
	{"what is no transaction", "A handle of another type, or one whose transaction is over, is refused and stores nothing.", "inv:A8", txHandles},
	{"finish", "A job is completed exactly if the transaction is committed, with its result, and a report after it is a repetition.",
		"inv:A8 tr:F1 tr:F12", txFinish},
	{"finish and roll back", "After a rollback the step still runs under its lease; any report about it counts.", "inv:A8 tr:F2 inv:F1", txFinishBack},
	{"finish a lost lease", "A step whose lease is lost completes nothing, so that the application rolls back.", "inv:A8 tr:L5 inv:F2", txFinishLost},
	{"finish twice", "A step that is completed cannot be completed again: what the second transaction did must not count.", "inv:A8 tr:F12", txFinishTwice},
	{"finish with what the store refuses", "A refused result leaves lease and transaction as they are.", "inv:A8 tr:F15 rules:C7", txFinishRefused},
	{"finish with next jobs", "Next jobs of a step appear with the commit and not after a rollback; those without an id get one.", "inv:A8 tr:F1 spec:D2", txFinishThen},
	{"side by side", "Transactions, calls of the store and workers go on beside each other, and what is committed is what exists.",
		"inv:A8 rules:F3 rules:F4 rules:F5 inv:U1", txSideBySide},
	{"finish and enqueue", "The end of a job frees its key inside of the transaction.", "inv:A8 inv:U2", txFinishNext},
	{"finish a member", "A workflow whose last member is completed in a transaction ends soon after the commit, without a sweep, and not after a rollback.",
		"inv:A8 tr:F1", txFinishMember},
	{"finish with next jobs and dependents", "The commit stores the next jobs of a completed job and releases its dependents, at once, and a rollback does neither.",
		"inv:A8 inv:G2 tr:F1 tr:S3", txFinishWithJobs},
	{"finish a job with many dependents", "The commit releases the dependents of a completed job, however many there are and whatever becomes of the job meanwhile.",
		"inv:A8 inv:G4 tr:S3 tr:O8", txFinishParent},
}

type txScene struct {
	*kit.Scene
	app Application
}

// tx is a transaction of the application in a scene.
type tx struct {
	Tx
	s *txScene
}

func (s *txScene) begin() tx {
	s.Helper()
	x, err := s.app.Begin()
	s.Must(err, "begin")
	return tx{x, s}
}

func (x tx) insert(n int64) {
	x.s.Helper()
	x.s.Must(x.Insert(n), "insert into the application's table")
}

func (x tx) commit() {
	x.s.Helper()
	x.s.Must(x.Commit(), "commit")
}

func (x tx) rollback() {
	x.s.Helper()
	x.s.Must(x.Rollback(), "rollback")
}

func (x tx) try(jobs ...sojourn.Job) ([]sojourn.Enqueued, error) {
	return x.s.Store.(driver.TxStore).EnqueueTx(x.s.Ctx, x.Handle, jobs)
}

// put enqueues one job in the transaction.
func (x tx) put(j sojourn.Job) sojourn.Enqueued {
	x.s.Helper()
	es, err := x.try(j)
	x.s.Must(err, "EnqueueTx")
	if len(es) != 1 || es[0].ID <= 0 {
		x.s.Fatalf("EnqueueTx of 1 job answered %+v", es)
	}
	return es[0]
}

func (x tx) finish(o sojourn.Outcome) error {
	return x.s.Store.(driver.TxStore).FinishTx(x.s.Ctx, x.Handle, o)
}

// rows wants these numbers in the application's table.
func (s *txScene) rows(want ...int64) {
	s.Helper()
	if got := s.app.Rows(s.T); fmt.Sprint(got) != fmt.Sprint(want) {
		s.Fatalf("the application's table has %v, want %v", got, want)
	}
}

// none wants no job at all.
func (s *txScene) none(when string) {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{})
	s.Must(err, "Find")
	if len(jobs) > 0 {
		s.Fatalf("%s there are %d jobs, the first is %+v", when, len(jobs), jobs[0])
	}
}

// anonymous is a new job without an id.
func anonymous(options ...sojourn.Option) sojourn.Job {
	return *sojourn.NewJob(kit.Kind, []byte(`{"order":42}`), append([]sojourn.Option{kit.Typed("text/plain")}, options...)...)
}

func txCommit(s *txScene) {
	x := s.begin()
	x.insert(1)
	j := anonymous(sojourn.Key("k"), sojourn.Priority(7), sojourn.Tags("t"), sojourn.Meta("a", "b"))
	e := x.put(j)
	kit.Same(s.Scene, "state", e.State, sojourn.Ready)
	kit.Same(s.Scene, "duplicate", e.Duplicate, false)
	x.insert(2)
	s.none("before the commit")
	s.rows()
	x.commit()
	s.rows(1, 2)
	got := s.State(e.ID, sojourn.Ready)
	if string(got.Args) != string(j.Args) || got.Key != "k" || got.Priority != 7 || len(got.Tags) != 1 || got.Meta["a"] != "b" {
		s.Fatalf("the job is %+v", got)
	}
	s.At("created_at", got.CreatedAt, s.Now())
	c := s.Claim()
	kit.Same(s.Scene, "the claimed job", c.Job.ID, e.ID)
	s.Finish(kit.Completed(c), sojourn.Completed)
}

func txRollback(s *txScene) {
	j := anonymous(sojourn.Key("k"), sojourn.Queue("fresh"))
	x := s.begin()
	x.insert(1)
	x.put(j)
	x.rollback()
	s.rows()
	s.none("after a rollback")
	qs, err := s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	kit.Same(s.Scene, "queues", len(qs), 0)

	x = s.begin()
	x.insert(2)
	e := x.put(j)
	kit.Same(s.Scene, "duplicate", e.Duplicate, false)
	x.commit()
	s.rows(2)
	s.State(e.ID, sojourn.Ready)
}

func txIDs(s *txScene) {
	x := s.begin()
	lost := anonymous(kit.Args("lost"))
	x.put(lost)
	x.rollback()
	others := s.EnqueueMany(60) // more than a block of the scene
	x = s.begin()
	e := x.put(lost)
	x.commit()
	kit.Same(s.Scene, "duplicate", e.Duplicate, false)
	kit.Same(s.Scene, "args", string(s.Get(e.ID).Args), "lost")
	for _, id := range others {
		if id == e.ID {
			s.Fatalf("two jobs have the id %d", id)
		}
		s.State(id, sojourn.Ready)
	}
	// A job that has its id before is the same job in every transaction.
	mine := s.Job(kit.Args("mine"))
	x = s.begin()
	kit.Same(s.Scene, "id", x.put(mine).ID, mine.ID)
	x.rollback()
	s.Gone(mine.ID)
	for _, again := range []bool{false, true} {
		x = s.begin()
		e := x.put(mine)
		kit.Same(s.Scene, "id", e.ID, mine.ID)
		kit.Same(s.Scene, "duplicate", e.Duplicate, again)
		x.commit()
	}
}

func txKeyTaken(s *txScene) {
	holder := s.Enqueue(sojourn.Key("k"))
	x := s.begin()
	x.insert(1)
	before := x.put(anonymous())
	e := x.put(anonymous(sojourn.Key("k")))
	kit.Same(s.Scene, "the holder", e.ID, holder)
	kit.Same(s.Scene, "duplicate", e.Duplicate, true)
	_, err := x.try(anonymous(sojourn.Key("free")), anonymous(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError)))
	s.Is(err, sojourn.ErrConflict, "a taken key with ReturnError")
	if wrong := s.Refused(err, sojourn.CodeConflict, "a taken key"); wrong.Index != 1 {
		s.Fatalf("the index of the refused job is %d, want 1", wrong.Index)
	}
	x.insert(2) // the transaction is not spoilt
	x.commit()
	s.rows(1, 2)
	s.State(before.ID, sojourn.Ready)
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{})
	s.Must(err, "Find")
	kit.Same(s.Scene, "jobs", len(jobs), 2)
}

func txKeyTwice(s *txScene) {
	x := s.begin()
	es, err := x.try(anonymous(sojourn.Key("b"), kit.Args("1")), anonymous(sojourn.Key("a")), anonymous(sojourn.Key("b"), kit.Args("2")))
	s.Must(err, "EnqueueTx")
	kit.Same(s.Scene, "the second of a key", es[2], sojourn.Enqueued{ID: es[0].ID, State: sojourn.Ready, Duplicate: true})
	again := x.put(anonymous(sojourn.Key("a")))
	kit.Same(s.Scene, "the key in a second call", again, sojourn.Enqueued{ID: es[1].ID, State: sojourn.Ready, Duplicate: true})
	x.commit()
	kit.Same(s.Scene, "args of the first", string(s.Get(es[0].ID).Args), "1")
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{})
	s.Must(err, "Find")
	kit.Same(s.Scene, "jobs", len(jobs), 2)
}

func txReplace(s *txScene) {
	id := s.Enqueue(sojourn.Key("k"), kit.Args("old"))
	j := anonymous(sojourn.Key("k"), kit.Args("new"), sojourn.Delay(time.Hour), sojourn.OnKeyConflict(sojourn.Replace))
	x := s.begin()
	if e := x.put(j); e.ID != id || !e.Replaced || e.State != sojourn.Scheduled {
		s.Fatalf("a replacement answered %+v", e)
	}
	x.rollback()
	kit.Same(s.Scene, "args after a rollback", string(s.State(id, sojourn.Ready).Args), "old")
	x = s.begin()
	x.put(j)
	x.commit()
	kit.Same(s.Scene, "args after the commit", string(s.State(id, sojourn.Scheduled).Args), "new")
}

func txRefused(s *txScene) {
	bad := anonymous()
	bad.Kind = "no kind"
	x := s.begin()
	x.insert(1)
	first := x.put(anonymous())
	_, err := x.try(anonymous(sojourn.Key("z")), anonymous(sojourn.Key("y")), bad, anonymous())
	if wrong := s.Refused(err, sojourn.CodeInvalid, "a bad kind"); wrong.Index != 2 {
		s.Fatalf("the index of the refused job is %d, want 2", wrong.Index)
	}
	last := x.put(anonymous())
	x.commit()
	s.rows(1)
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{})
	s.Must(err, "Find")
	kit.Same(s.Scene, "jobs", len(jobs), 2)
	s.State(first.ID, sojourn.Ready)
	s.State(last.ID, sojourn.Ready)
	es, err := s.Store.(driver.TxStore).EnqueueTx(s.Ctx, nil, nil)
	if len(es) != 0 || err != nil {
		s.Fatalf("EnqueueTx of nothing answered %v, %v", es, err)
	}
}

func txTimes(s *txScene) {
	priority := int32(3)
	s.SetQueue("known", sojourn.QueueSettings{Defaults: sojourn.Policy{Priority: &priority}})
	x := s.begin()
	late := x.put(anonymous(sojourn.Delay(time.Hour), sojourn.Queue("new")))
	known := x.put(anonymous(sojourn.Queue("known")))
	kit.Same(s.Scene, "state", late.State, sojourn.Scheduled)
	x.commit()
	s.At("run_at", s.State(late.ID, sojourn.Scheduled).RunAt, s.Now().Add(time.Hour))
	kit.Same(s.Scene, "the queue's own priority", s.Get(known.ID).Priority, 3)
	kit.Same(s.Scene, "scheduled in the new queue", s.Queue("new").Counts[sojourn.Scheduled], 1)
	s.Swept(time.Hour, driver.Swept{Due: 1})
	s.State(late.ID, sojourn.Ready)
}
