// Package migrationtest tests migrations on one database: two more steps after the real ones, of
// which there is one today, and processes that are killed in the middle of them. The packages of
// the databases run it, because only they can open a database with such steps.
package migrationtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

// T is the part of testing.T that the tests need.
type T interface {
	// Helper is that of a testing.T, as are the others.
	Helper()
	// Errorf fails the test.
	Errorf(format string, args ...any)
	// Fatalf ends it.
	Fatalf(format string, args ...any)
	// Logf notes something.
	Logf(format string, args ...any)
}

// Steps are two more steps after the last real one. The first only adds, so that older programs go
// on; the second does not. Their statements are common SQL; many makes many rows, slowly enough to
// be killed in the middle of it.
func Steps(last sqldb.Migration, many string) []sqldb.Migration {
	return []sqldb.Migration{
		{Version: last.Version + 1, Name: "extra", Needs: last.Needs,
			Up: `create table sj_extra (id bigint not null primary key, text text not null);
				insert into sj_extra (id, text) ` + many + `;
				create index ix_extra_text on sj_extra (text, id) where id > 5;
				alter table sj_queue add column note text not null default ''`,
			Down: `alter table sj_queue drop column note; drop index ix_extra_text; drop table sj_extra`},
		{Version: last.Version + 2, Name: "rewrite", Needs: last.Version + 2,
			Up: `create table sj_other (id bigint not null primary key, size bigint not null);
				insert into sj_other (id, size) select id, length(text) from sj_extra;
				create index ix_other_size on sj_other (size);
				update sj_extra set text = text || '!'`,
			Down: `update sj_extra set text = substr(text, 1, length(text) - 1); drop table sj_other`},
	}
}

// Database opens one database again and again, each time as another process would.
type Database struct {
	// Open opens it with Steps; fn, if not nil, wraps the database for the migrator.
	Open func(fn func(sqldb.DB) sqldb.DB) (migrate.Migrator, error)
	// Start starts this test binary as a process of its own that calls Child(command), and returns
	// its output when it has ended.
	Start func(command string) (wait func() (output string, err error))
}

// Child is the main function of a process: "migrate TO AT" kills itself with kill -9 before
// statement AT of all that it runs (a negative AT: in the middle of that statement, a little later;
// 0: never). It prints the steps that it took.
func Child(db Database, command string) error {
	var to, at int
	if _, err := fmt.Sscanf(command, "migrate %d %d", &to, &at); err != nil {
		return err
	}
	m, err := db.Open(func(inner sqldb.DB) sqldb.DB { return &mortal{DB: inner, at: at} })
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	steps, err := m.Migrate(ctx, to)
	for _, s := range steps {
		fmt.Printf("took %d\n", s.Version)
	}
	return err
}

// mortal is a DB that kills its own process.
type mortal struct {
	sqldb.DB
	at   int
	seen int
}

// Others passes the ability on.
func (d *mortal) Others(ctx context.Context, level int) (int, error) {
	if c, ok := d.DB.(sqldb.Crowded); ok {
		return c.Others(ctx, level)
	}
	return 0, nil
}

func (d *mortal) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.DB.Update(ctx, func(c sqldb.Conn) error { return fn(&mortalConn{c, d}) })
}

type mortalConn struct {
	sqldb.Conn
	db *mortal
}

func (c *mortalConn) Exec(q string, args ...any) (int64, error) {
	c.db.seen++
	switch c.db.seen {
	case c.db.at:
		die()
	case -c.db.at:
		time.AfterFunc(time.Duration(rand.IntN(20_000))*time.Microsecond, die)
	}
	return c.Conn.Exec(q, args...)
}

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	fmt.Println("not dead:", err)
	select {}
}

// Kill runs all steps up and down again while processes die between and inside of the statements.
// After each death the tables are complete in some version, and a second run completes. It tests
// one in seven statements, unless SOJOURN_KILL_EVERY sets another number.
func Kill(t T, db Database) {
	t.Helper()
	every, err := strconv.Atoi(cmp.Or(os.Getenv("SOJOURN_KILL_EVERY"), "7"))
	if err != nil || every < 1 {
		t.Fatalf("SOJOURN_KILL_EVERY: %v", err)
	}
	deaths, versions := 0, map[int]int{}
	newest := newestOf(t, db)
	for _, sign := range []int{1, -1} {
		for at := 1; ; at += every {
			killed := 0
			for _, to := range []int{newest, 0} {
				out, err := db.Start(fmt.Sprintf("migrate %d %d", to, sign*at))()
				if strings.Contains(out, "not dead") {
					t.Fatalf("%s", out)
				}
				found := finish(t, db, to, fmt.Sprintf("killed at %d on the way to %d", sign*at, to))
				if err != nil {
					killed++
					versions[found]++
				}
			}
			deaths += killed
			if killed == 0 {
				break
			}
		}
	}
	if deaths < 8 {
		t.Errorf("only %d processes were killed", deaths)
	}
	t.Logf("%d processes killed; versions found after it: %v", deaths, versions)
}

// whole checks that the tables are those of the recorded version. Leftovers of a migration down to
// version 0 are found by the next migration up.
func whole(t T, m migrate.Migrator, when string) (found int) {
	t.Helper()
	s, err := m.Schema(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if s.Found > 0 {
		if drift, err := m.Drift(context.Background()); err != nil || len(drift) > 0 {
			t.Errorf("%s: version %d is not whole: %v %v", when, s.Found, drift, err)
		}
	}
	return s.Found
}

// finish checks the schema and completes the migration to a version. It returns the version found.
func finish(t T, db Database, to int, when string) (found int) {
	t.Helper()
	m, err := db.Open(nil)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer m.Close()
	found = whole(t, m, when)
	if found == to {
		return found
	}
	if _, err := m.Migrate(context.Background(), to); err != nil {
		t.Fatalf("%s: a second run to %d: %v", when, to, err)
	}
	if now := whole(t, m, when); now != to {
		t.Fatalf("%s: a second run to %d ended at %d", when, to, now)
	}
	return found
}

func newestOf(t T, db Database) int {
	t.Helper()
	m, err := db.Open(nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer m.Close()
	s, err := m.Schema(context.Background())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s.Newest
}

// Together lets two processes migrate at once, several times up and down: both succeed, and each
// step is taken once.
func Together(t T, db Database, rounds int) {
	t.Helper()
	newest := newestOf(t, db)
	for range rounds {
		for _, to := range []int{newest, 0} {
			command := fmt.Sprintf("migrate %d 0", to)
			one, other := db.Start(command), db.Start(command)
			var took []int
			for _, wait := range []func() (string, error){one, other} {
				out, err := wait()
				if err != nil {
					t.Errorf("one of two: %v\n%s", err, out)
				}
				for line := range strings.Lines(out) {
					if v, ok := strings.CutPrefix(strings.TrimSpace(line), "took "); ok {
						n, _ := strconv.Atoi(v)
						took = append(took, n)
					}
				}
			}
			if slices.Sort(took); len(took) != newest || len(slices.Compact(slices.Clone(took))) != newest {
				t.Errorf("on the way to %d the steps %v were taken, want 1 to %d, each once", to, took, newest)
			}
			finish(t, db, to, "two at once")
		}
	}
}

// Command starts a process and returns its output; see Database.Start.
func Command(cmd *exec.Cmd) func() (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := proctest.Start(cmd)
	return func() (string, error) {
		if err == nil {
			err = cmd.Wait()
		}
		return out.String(), err
	}
}

// stepwise runs the steps up one by one.
func stepwise(t T, m migrate.Migrator, newest int) {
	t.Helper()
	ctx := context.Background()
	for v := 1; v <= newest; v++ {
		steps, err := m.Migrate(ctx, v)
		if err != nil || len(steps) != 1 || steps[0].Version != v || steps[0].Down {
			t.Fatalf("%+v %v", steps, err)
		}
		needs := steps[0].Needs
		if v == newest { // the last one of Steps
			needs = v
		}
		if s, err := m.Schema(ctx); err != nil || s.Found != v || s.Needs != needs {
			t.Errorf("%+v %v, want version %d that needs %d", s, err, v, needs)
		}
		whole(t, m, "step by step")
	}
}

// History runs the steps one by one and checks both directions of each: the plan, the losses, the
// versions needed, and drift.
func History(t T, db Database, run func(q string)) {
	t.Helper()
	ctx := context.Background()
	m, err := db.Open(nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer m.Close()
	s, err := m.Schema(ctx)
	if err != nil || s.Found != 0 || s.Newest < 3 || s.Needs != 0 {
		t.Fatalf("%+v %v", s, err)
	}
	if _, err := m.Drift(ctx); sojourn.ErrorCode(err) != sojourn.CodeSchema {
		t.Errorf("drift of nothing: %v", err)
	}
	for _, to := range []int{-1, s.Newest + 1} {
		if _, err := m.Migrate(ctx, to); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("to %d: %v", to, err)
		}
	}
	stepwise(t, m, s.Newest)
	run("insert into sj_queue (name, seq, paused, settings, note) values ('mail', 1, 0, '', 'x')")
	plan, err := m.Plan(ctx, 0)
	if err != nil || len(plan) != s.Newest || !plan[0].Down || plan[0].Version != s.Newest {
		t.Fatalf("%+v %v", plan, err)
	}
	lost := fmt.Sprint(plan[0].Loses, plan[1].Loses)
	for _, want := range []string{"sj_other", "sj_extra", "note 1}"} {
		if !strings.Contains(lost, want) {
			t.Errorf("the way down takes away %s, and does not say %s", lost, want)
		}
	}
	if !slices.ContainsFunc(plan[len(plan)-1].Loses, func(l migrate.Loss) bool {
		return strings.HasSuffix(l.Table, "sj_queue") && l.Rows == 1 && l.Column == ""
	}) {
		t.Errorf("the last step takes away %+v", plan[len(plan)-1].Loses)
	}
	for _, q := range []string{"create index sj_mine on sj_queue (seq)", "alter table sj_queue add column mine integer", "drop table sj_other"} {
		run(q)
		if drift, err := m.Drift(ctx); err != nil || len(drift) == 0 {
			t.Errorf("%s is no drift: %v", q, err)
		}
	}
	drift, err := m.Drift(ctx)
	if err != nil || !strings.Contains(strings.Join(drift, "\n"), "sj_queue.mine is not from a migration") || !strings.Contains(strings.Join(drift, "\n"), "sj_other is missing") {
		t.Errorf("%q %v", drift, err)
	}
	for _, q := range []string{"drop index sj_mine", "alter table sj_queue drop column mine", "create table sj_other (id bigint not null primary key, size bigint not null)"} {
		run(q)
	}
	if _, err := m.Migrate(ctx, 0); err != nil {
		t.Fatalf("%v", err)
	}
	if s, err = m.Schema(ctx); err != nil || s.Found != 0 || s.Needs != 0 {
		t.Errorf("%+v %v, want no version", s, err)
	}
}
