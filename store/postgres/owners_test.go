package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// member is an open store with its DB.
type member struct {
	*sojourn.Client
	db     *DB
	leases []sojourn.Lease
}

func openMember(address, schema string) (*member, error) {
	o, err := newOptions([]Option{Schema(schema), AutoMigrate()})
	if err != nil {
		return nil, err
	}
	db, err := openDB(context.Background(), address, o)
	if err != nil {
		return nil, err
	}
	s, err := newStore(context.Background(), db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &member{Client: sojourn.NewClient(s), db: db}, nil
}

func newMember(t *testing.T, address, schema string) *member {
	t.Helper()
	m, err := openMember(address, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// worker names a worker of this process.
func (m *member) worker() string { return m.Store().(driver.Owner).OwnerID() + ".w" }

// hold claims n jobs of a kind for an hour.
func (m *member) hold(worker, kind string, n int) error {
	jobs, err := driver.Of(m.Client).Claim(context.Background(), driver.ClaimRequest{Worker: worker, Number: 1, Queues: []string{"default"}, Kinds: []string{kind},
		Max: n, Capacity: 100, Lease: time.Hour})
	if err == nil && len(jobs) != n {
		err = fmt.Errorf("%s claimed %d jobs of the kind %s", worker, len(jobs), kind)
	}
	for _, j := range jobs {
		m.leases = append(m.leases, j.Lease)
	}
	return err
}

// records counts the records of this process; -1 if they cannot be read.
func (m *member) records() (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if m.db.pool.QueryRow(ctx, m.db.text("select count(*) from sj_owner where id = $1"), m.db.owner.ID()).Scan(&n) != nil {
		return -1
	}
	return n
}

// locked reports whether the death of this process would be noticed.
func (m *member) locked() bool {
	return m.db.DeadLeases() == sqldb.LeasesEndAtOnce && m.records() == 1
}

// finish reports how many of the leases were lost.
func (m *member) finish(t *testing.T) (lost int) {
	t.Helper()
	var outcomes []sojourn.Outcome
	for _, l := range m.leases {
		outcomes = append(outcomes, sojourn.Outcome{Lease: l, Type: sojourn.OutcomeCompleted})
	}
	done, err := driver.Of(m.Client).Finish(context.Background(), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range done {
		if f.Status != driver.FinishApplied {
			lost++
		}
	}
	return lost
}

// watch keeps a call blocked until the test ends, so that the process looks for dead ones.
func (m *member) watch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for number := int64(1); ctx.Err() == nil; number++ {
			driver.Of(m.Client).Claim(ctx, driver.ClaimRequest{Worker: "watcher." + m.db.owner.ID(), Number: number, Queues: []string{"default"},
				Kinds: []string{"none"}, Max: 1, Capacity: 1, Wait: time.Minute})
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// looked waits until a process has looked n times more.
func (m *member) looked(t *testing.T, n int) {
	t.Helper()
	before := m.db.judge.Looks()
	until(t, fmt.Sprint(n, " looks"), func() bool { return m.db.judge.Looks() >= before+n })
}

// ownerStatements counts the statements over locks, apart from those in a poll of the version.
type ownerStatements struct{ n atomic.Int64 }

func (s *ownerStatements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "sj_owner") {
		s.n.Add(1)
	}
	return ctx
}
func (s *ownerStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestLooksCostNoStatement: an idle process that waits for jobs looks for dead ones in the
// statement that polls the version, and in no other.
func TestLooksCostNoStatement(t *testing.T) {
	schema := newSchema(t)
	other := newMember(t, testURL(t), schema)
	other.worker()
	until(t, "the lock of another process", other.locked)
	o, err := newOptions([]Option{Schema(schema)})
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var statements ownerStatements
	trace(t, db, &statements)
	s, err := newStore(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Client: sojourn.NewClient(s), db: db}
	t.Cleanup(func() { m.Close() })
	m.worker()
	until(t, "a recorded lock", m.locked)
	m.watch(t)
	m.looked(t, 1)
	before := statements.n.Load()
	m.looked(t, 4)
	if n := statements.n.Load() - before; before == 0 || n > 0 {
		t.Errorf("%d statements over locks before the looks, %d during them", before, n)
	}
}

// runHolder claims a job of the kind "own" as its own worker, and one of the kind "remote" for a
// worker that came over HTTP. Then it does nothing until its input ends.
func runHolder(address, schema string) error {
	m, err := openMember(address, schema)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := errors.Join(m.hold(m.worker(), "own", 1), m.hold("remote", "remote", 1)); err != nil {
		return err
	}
	for !m.locked() {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	return nil
}

// startHolder starts such a process and waits until it is ready.
func startHolder(t *testing.T, address, schema string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOJOURN_TEST_HOLDER="+schema, "SOJOURN_TEST_POSTGRES="+address)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	if text, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(text) != "ready" {
		t.Fatal(text, err)
	}
	return cmd
}

// enqueueKinds stores a job of each kind.
func enqueueKinds(t *testing.T, m *member, kinds ...string) (ids []sojourn.ID) {
	t.Helper()
	for _, kind := range kinds {
		job := sojourn.NewJob(kind, nil)
		if _, err := m.Enqueue(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
	}
	return ids
}

// TestDeadProcess: spec:L8. The lease of a killed process ends at once and its job starts again.
// The lease of a worker that came over HTTP to the same process stands.
func TestDeadProcess(t *testing.T) {
	schema := newSchema(t)
	m := newMember(t, testURL(t), schema)
	ids := enqueueKinds(t, m, "own", "remote")
	h := startHolder(t, testURL(t), schema)
	m.watch(t)
	m.looked(t, 3)
	for _, id := range ids {
		if j, err := m.Get(t.Context(), id); err != nil || j.State != sojourn.Running {
			t.Fatalf("before the death: %v, %v", j, err)
		}
	}
	killed := time.Now()
	h.Process.Kill()
	jobs, err := driver.Of(m.Client).Claim(t.Context(), driver.ClaimRequest{Worker: m.worker(), Number: 1, Queues: []string{"default"}, Kinds: []string{"own"},
		Max: 1, Capacity: 1, Lease: time.Minute, Wait: 30 * time.Second})
	t.Logf("the job started again %v after kill -9", time.Since(killed).Round(time.Millisecond))
	if err != nil || len(jobs) != 1 || jobs[0].Job.ID != ids[0] {
		t.Fatal(jobs, err)
	}
	if j := jobs[0].Job; j.Epoch != 2 || j.Crashes != 1 {
		t.Errorf("epoch %d, %d crashes", j.Epoch, j.Crashes)
	}
	m.looked(t, 3)
	if j, err := m.Get(t.Context(), ids[1]); err != nil || j.State != sojourn.Running || j.Epoch != 1 {
		t.Errorf("the job of the remote worker: %v, %v", j, err)
	}
	var left int
	one(t, "select count(*) from "+schema+".sj_owner where id <> $1", m.db.owner.ID(), &left)
	if left != 0 {
		t.Errorf("%d records of dead processes are left", left)
	}
}

// named opens a store whose connections have a name.
func named(t *testing.T, address, schema, name string) *member {
	t.Helper()
	return newMember(t, with(t, address, "application_name", name), schema)
}

// TestLockConnectionsCut: spec:L8. A living process whose connections are ended again and again
// keeps its leases: first those with the lock, then all that it has.
func TestLockConnectionsCut(t *testing.T) {
	for name, cut := range map[string]struct {
		suffix string
		every  time.Duration
	}{"of the lock": {" notifications", 50 * time.Millisecond}, "all": {"%", 300 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			victim, judge := named(t, testURL(t), schema, schema+".victim"), named(t, testURL(t), schema, schema+".judge")
			enqueueKinds(t, victim, "own", "own", "own")
			if err := victim.hold(victim.worker(), "own", 3); err != nil {
				t.Fatal(err)
			}
			until(t, "a recorded lock", victim.locked)
			judge.watch(t)
			cuts := 0
			judge.looked(t, 1)
			for began := judge.db.judge.Looks(); judge.db.judge.Looks() < began+5; time.Sleep(cut.every) {
				var n int
				one(t, "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like $1", schema+".victim"+cut.suffix, &n)
				cuts += n
			}
			until(t, "the lock again", victim.locked)
			judge.looked(t, 3)
			if lost := victim.finish(t); lost > 0 {
				t.Errorf("%d leases of a living process were ended", lost)
			}
			if cuts == 0 {
				t.Error("no connection was ended: the test shows nothing")
			}
			t.Logf("%d connections ended", cuts)
		})
	}
}

// TestVerdictIsVoid: spec:L8. A process that was found dead twice and then records another lock
// keeps its leases: the verdict is checked in the transaction that would end them.
func TestVerdictIsVoid(t *testing.T) {
	schema := newSchema(t)
	victim, judge := newMember(t, testURL(t), schema), newMember(t, testURL(t), schema)
	enqueueKinds(t, victim, "own")
	if err := victim.hold(victim.worker(), "own", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "a recorded lock", victim.locked)
	id := victim.db.owner.ID()
	tables := func(q string) {
		t.Helper()
		execute(t, testURL(t), strings.ReplaceAll(q, "sj_owner", schema+".sj_owner"))
	}
	look := func(want ...string) {
		t.Helper()
		err := judge.db.EndDead(t.Context(), func(string) (bool, error) { return false, nil })
		if got := judge.db.judge.Dead(); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("dead: %q, want %q: %v", got, want, err)
		}
	}
	judge.db.OnDeath(func() {})
	now := time.Now()
	judge.db.judge.Now = func() time.Time { return now }
	later := func(d time.Duration) { now = now.Add(d) }
	look()
	tables("update sj_owner set lock_key = 12") // a lock that nobody holds
	later(time.Second)
	look()
	tables("update sj_owner set lock_key = 14") // another one: the first look counts no more
	later(time.Second)
	look()
	later(time.Second)
	look(id)
	tables("update sj_owner set lock_key = 16")
	if _, err := driver.Of(judge.Client).Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if lost := victim.finish(t); lost > 0 {
		t.Error("the lease of a process that lives again was ended")
	}
	later(time.Second)
	look()
	later(time.Second)
	look(id)
	judge.db.judge.Disturb()
	look()
	later(59 * time.Second)
	look()
	later(2 * time.Second)
	look()
	tables("update sj_owner set server_us = server_us - 1") // from before a restart of the server
	later(time.Second)
	look()
}

// TestLockBehindAPooler: spec:L8. Where connections keep no session, no lock is recorded, and the
// store says that leases end by time.
func TestLockBehindAPooler(t *testing.T) {
	schema := newSchema(t)
	direct := newMember(t, testURL(t), schema)
	m := newMember(t, with(t, pooler(t), "default_query_exec_mode", "cache_describe"), schema)
	enqueueKinds(t, m, "own")
	if err := m.hold(m.worker(), "own", 1); err != nil {
		t.Fatal(err)
	}
	direct.worker()
	until(t, "the lock of the other process", direct.locked)
	for want, c := range map[string]*member{sqldb.LeasesEndByTime: m, sqldb.LeasesEndAtOnce: direct} {
		if s, err := c.Store().Status(t.Context()); err != nil || s.DeadLeases != want {
			t.Errorf("leases of a dead process end %q, want %q: %v", s.DeadLeases, want, err)
		}
	}
	if n := m.records(); n != 0 {
		t.Errorf("%d records of a process without a session", n)
	}
}

// TestClosedStore: a store that is closed deletes its record. Its leases end by time, because its
// handlers may still run.
func TestClosedStore(t *testing.T) {
	schema := newSchema(t)
	closed, judge := newMember(t, testURL(t), schema), newMember(t, testURL(t), schema)
	ids := enqueueKinds(t, closed, "own")
	if err := closed.hold(closed.worker(), "own", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "a recorded lock", closed.locked)
	judge.watch(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	judge.looked(t, 3)
	if j, err := judge.Get(t.Context(), ids[0]); err != nil || j.State != sojourn.Running {
		t.Errorf("%v, %v", j, err)
	}
	var left int
	one(t, "select count(*) from "+schema+".sj_owner where id <> $1", "", &left)
	if left != 0 {
		t.Error("the record is left")
	}
}

// TestOldRecords: records from before a restart of the server, whose processes have died with it,
// are deleted by the next process that records its lock.
func TestOldRecords(t *testing.T) {
	schema := newSchema(t)
	m := newMember(t, testURL(t), schema)
	execute(t, testURL(t), "insert into "+schema+".sj_owner (id, lock_key, server_us) values ('abcdefghijklmnop', 2, 1)")
	m.worker()
	until(t, "the record of this process alone", func() bool {
		var all int
		one(t, "select count(*) from "+schema+".sj_owner where id <> $1", "", &all)
		return all == 1 && m.locked()
	})
}

// TestInstancesJudgeTheirOwn: spec:L8. The processes of another schema neither see nor end leases
// of this one.
func TestInstancesJudgeTheirOwn(t *testing.T) {
	one, two := newSchema(t), newSchema(t)
	m, other := newMember(t, testURL(t), one), newMember(t, testURL(t), two)
	ids := enqueueKinds(t, m, "own", "remote")
	h := startHolder(t, testURL(t), one)
	other.watch(t)
	other.looked(t, 1)
	h.Process.Kill()
	other.looked(t, 4)
	if j, err := m.Get(t.Context(), ids[0]); err != nil || j.State != sojourn.Running {
		t.Errorf("%v, %v", j, err)
	}
	m.watch(t)
	until(t, "the end of the lease", func() bool {
		j, err := m.Get(t.Context(), ids[0])
		return err == nil && j.State == sojourn.Ready
	})
}
