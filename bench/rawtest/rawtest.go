// Package rawtest checks that the statements of the raw limit leave the same rows as our store. If
// the schema or what the store writes changes, the limit that we measure ourselves by must change
// with it.
package rawtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/bench"
)

// tables are those that a job's life writes.
var tables = []string{"sj_job", "sj_live", "sj_final", "sj_history", "sj_key", "sj_data"}

// Rows reads a table: a map for each row, from the name of a column to an int64, a []byte, or
// another value that is compared as text.
type Rows func(table string) []map[string]any

// Raw has the raw statements, each of which handles one job, and the rows that they leave.
type Raw struct {
	Worker                 string
	Enqueue, Claim, Finish func() error
	Rows                   Rows
}

// SameRows takes one job through our store and one through the raw statements, in two databases,
// and compares the tables after each step. Then start stores a job as running in a third database,
// whose rows must be those of our store after the claim.
func SameRows(t *testing.T, c *sojourn.Client, ours Rows, raw Raw, start func() error, started Rows) {
	t.Helper()
	var lease sojourn.Lease
	var claimed map[string]string
	for _, step := range []struct {
		name      string
		ours, raw func() error
	}{
		{"enqueue", func() error { return (&bench.Sojourn{Client: c}).Enqueue(t.Context(), 1, 1) }, raw.Enqueue},
		{"claim", func() error {
			jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: raw.Worker, Queues: []string{bench.Queue}, Kinds: []string{bench.Kind}, Max: 1, Capacity: 1})
			if err == nil {
				lease = jobs[0].Lease
			}
			return err
		}, raw.Claim},
		{"finish", func() error {
			_, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{{Lease: lease, Type: sojourn.OutcomeCompleted}})
			return err
		}, raw.Finish},
	} {
		if err := step.ours(); err != nil {
			t.Fatal(step.name, err)
		}
		if err := step.raw(); err != nil {
			t.Fatal(step.name, err)
		}
		want := all(ours)
		if step.name == "claim" {
			claimed = want
		}
		equal(t, "after "+step.name, want, all(raw.Rows))
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	equal(t, "after a start", claimed, all(started))
}

func equal(t *testing.T, when string, want, got map[string]string) {
	t.Helper()
	for _, table := range tables {
		if want[table] != got[table] {
			t.Errorf("%s, our store leaves in %s\n%sand the raw statements leave\n%s", when, table, want[table], got[table])
		}
	}
}

// all reads the tables as text.
func all(read Rows) map[string]string {
	text := map[string]string{}
	for _, table := range tables {
		for _, row := range read(table) {
			for _, column := range slices.Sorted(maps.Keys(row)) {
				text[table] += column + "=" + value(column, row[column]) + " "
			}
			text[table] += "\n"
		}
	}
	return text
}

// value is only whether a time is set, and only the length of a digest.
func value(column string, v any) string {
	switch v := v.(type) {
	case int64:
		if column == "r2" || strings.HasSuffix(column, "_us") && column != "lease_us" && v != math.MaxInt64 {
			return fmt.Sprint(v != 0)
		}
	case []byte:
		if column == "digest" {
			return fmt.Sprint(len(v), " bytes")
		}
	}
	return fmt.Sprint(v)
}
