package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checktest"
)

// TestDoctorFindsEachPlantedViolation breaks one invariant at a time in a healthy store (spec:A18).
func TestDoctorFindsEachPlantedViolation(t *testing.T) {
	schema := newSchema(t)
	conn, err := pgx.Connect(t.Context(), with(t, testURL(t), "search_path", schema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	execute := func(t *testing.T, q string) int64 {
		t.Helper()
		tag, err := conn.Exec(t.Context(), q)
		if err != nil {
			t.Fatal(q, err)
		}
		return tag.RowsAffected()
	}
	var tables []string
	var c *sojourn.Client
	checktest.Run(t, open(t, Schema(schema), AutoMigrate()), "''::bytea", func(t *testing.T, plant string) driver.Checker {
		if c == nil { // keep the healthy tables beside
			c = open(t, Schema(schema))
			dropConstraints(t, schema) // the doctor also finds what the schema refuses
			rows, err := conn.Query(t.Context(), "select tablename from pg_tables where schemaname = $1", schema)
			if err == nil {
				tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range tables {
				execute(t, "create table kept_"+table+" as table "+table)
			}
		}
		for _, table := range tables {
			execute(t, "truncate "+table)
			execute(t, "insert into "+table+" select * from kept_"+table)
		}
		if plant != "" && execute(t, plant) == 0 {
			t.Error("the plant changed nothing:", plant)
		}
		return c.Store().(driver.Checker)
	})
	c.Close()
}

// dropConstraints removes the check constraints of the tables in a schema.
func dropConstraints(t *testing.T, schema string) {
	t.Helper()
	execute(t, testURL(t), `do $$ declare c record; begin
		for c in select conrelid::regclass as home, conname from pg_constraint where contype = 'c' and connamespace = '`+schema+`'::regnamespace loop
			execute format('alter table %s drop constraint %I', c.home, c.conname);
		end loop; end $$`)
}

// TestEachConstraintRefuses: spec:S12.
func TestEachConstraintRefuses(t *testing.T) {
	schema := newSchema(t)
	conn, err := pgx.Connect(t.Context(), with(t, testURL(t), "search_path", schema))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	list := func(t *testing.T) []checktest.Constraint {
		rows, err := conn.Query(t.Context(), `select c.relname, k.conname, array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum = any(k.conkey))
			from pg_constraint k join pg_class c on c.oid = k.conrelid where k.contype = 'c' and k.connamespace = $1::text::regnamespace`, schema)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[checktest.Constraint])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	blob := func(n string) string { return "decode(repeat('00', " + n + "), 'hex')" }
	checktest.Constraints(t, open(t, Schema(schema), AutoMigrate()), blob, list, func(t *testing.T, q string) (int64, error) {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		tag, err := tx.Exec(t.Context(), q)
		return tag.RowsAffected(), err
	})
}

// TestDoctorReadsInSlices: with a short time limit for each read, the doctor still checks all of a
// store that is too large for one read, finds an error at its end, and stops when its caller's
// context ends.
func TestDoctorReadsInSlices(t *testing.T) {
	const n = 5000
	schema := newSchema(t)
	o, err := newOptions([]Option{Schema(schema), AutoMigrate()})
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := sojourn.NewClient(s)
	for range n / sojourn.MaxBatch {
		jobs := make([]*sojourn.Job, sojourn.MaxBatch)
		for i := range jobs {
			jobs[i] = sojourn.NewJob("k", nil)
		}
		if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
			t.Fatal(err)
		}
	}
	dropConstraints(t, schema)
	execute(t, testURL(t), "update "+schema+".sj_live set attempt = -1 where id = (select max(id) from "+schema+".sj_live)")

	var last driver.CheckProgress
	var reports int
	var most int64
	check := func(limit time.Duration) ([]driver.Violation, error) {
		db.readLimit, last, reports, most = limit, driver.CheckProgress{}, 0, 0
		return s.CheckWith(t.Context(), func(p driver.CheckProgress) {
			most = max(most, p.Rows-last.Rows)
			if p.Number < last.Number || p.Rows < last.Rows || p.Check == "" {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
			reports++
		})
	}
	limit := 20 * time.Millisecond
	found, err := check(limit)
	for sojourn.ErrorCode(err) == sojourn.CodeUnavailable && limit < readLimit { // a busy machine
		limit *= 2
		found, err = check(limit)
	}
	if err != nil || len(found) != 1 || found[0].Check != "counters" {
		t.Errorf("%v %v", found, err)
	}
	if last.Number != last.Of || last.Rows < 2*n || reports <= last.Of || most > 2000 {
		t.Errorf("%d reports, up to %d rows at a time, the last %+v", reports, most, last)
	}
	db.readLimit = readLimit
	short, cancel := context.WithCancel(t.Context())
	if _, err := s.CheckWith(short, func(driver.CheckProgress) { cancel() }); err != context.Canceled {
		t.Errorf("a caller who went away: %v", err)
	}
}

var _ driver.ProgressChecker = (*sqlstore.Store)(nil)
