package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestRawLeavesTheSameRows takes one job through our store and one through the raw statements, in
// two files, and compares after each step what stands in the tables. If the schema or what the
// store writes changes, the limit that we measure ourselves by must change with it.
func TestRawLeavesTheSameRows(t *testing.T) {
	r, err := openRaw()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "ours.db")
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ours := &raw{folder: t.TempDir()}
	if err := ours.connect(path); err != nil {
		t.Fatal(err)
	}
	defer ours.conn.Close()
	var ids []int64
	var lease sojourn.Lease
	claimed := map[string][]string{} // table -> rows that our store leaves after the claim
	for _, step := range []struct {
		name       string
		ours, bare func() error
	}{
		{"enqueue", func() error { return (&bench.Sojourn{Client: c}).Enqueue(t.Context(), 1, 1) }, func() error { return r.enqueue(1) }},
		{"claim", func() error {
			jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: rawWorker, Queues: []string{bench.Queue}, Kinds: []string{bench.Kind}, Max: 1, Capacity: 1})
			if err == nil {
				lease = jobs[0].Lease
			}
			return err
		}, func() (err error) { ids, err = r.claim(1); return err }},
		{"finish", func() error {
			_, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{{Lease: lease, Type: sojourn.OutcomeCompleted}})
			return err
		}, func() error { return r.finish(ids) }},
	} {
		if err := step.ours(); err != nil {
			t.Fatal(step.name, err)
		}
		if err := step.bare(); err != nil {
			t.Fatal(step.name, err)
		}
		for _, table := range tables {
			want, got := rows(t, ours, table), rows(t, r, table)
			if step.name == "claim" {
				claimed[table] = want
			}
			if !slices.Equal(want, got) {
				t.Errorf("after %s, %s holds\n%s\nand raw leaves\n%s", step.name, table, strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
		}
	}
	started, err := openRaw()
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	if _, err := started.start(1); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if got := rows(t, started, table); !slices.Equal(claimed[table], got) {
			t.Errorf("%s holds\n%s\nafter the claim, and raw_start leaves\n%s", table, strings.Join(claimed[table], "\n"), strings.Join(got, "\n"))
		}
	}
}

// tables are those that a job's life writes.
var tables = []string{"sj_job", "sj_live", "sj_final", "sj_history", "sj_key", "sj_data"}

// rows reads a table as text. Of times it says only whether they are set, of digests how long they
// are.
func rows(t *testing.T, r *raw, table string) (out []string) {
	t.Helper()
	st, err := r.conn.Prepare("select * from " + table)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	for {
		more, err := st.Step()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return out
		}
		row := map[string]string{}
		for i := range st.ColumnCount() {
			name, v := st.ColumnName(i), st.ColumnText(i)
			if n := st.ColumnInt64(i); name == "r2" || strings.HasSuffix(name, "_us") && name != "lease_us" && n != 9223372036854775807 {
				v = fmt.Sprint(n != 0)
			}
			if name == "digest" {
				v = fmt.Sprint(st.ColumnLen(i), " bytes")
			}
			row[name] = v
		}
		var line []string
		for _, name := range slices.Sorted(maps.Keys(row)) {
			line = append(line, name+"="+row[name])
		}
		out = append(out, strings.Join(line, " "))
	}
}
