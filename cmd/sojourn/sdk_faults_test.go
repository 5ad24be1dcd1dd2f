package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

const (
	faultLease    = 48.0 // seconds, of the workers of the table: long enough for a machine with much else to do
	faultPatience = 9 * time.Minute
	faultBody     = 80 << 20 // bytes that a client may take of an answer: its limit of 64 MiB and what lies in buffers
	atATime       = 12       // rows of one client
)

// faultInput is what a driver gets: the rows, each with the URL URL/rN.
type faultInput struct {
	URL   string      `json:"url"`
	Token string      `json:"token"`
	Lease float64     `json:"lease"`
	Limit int         `json:"limit"` // rows at a time
	Rows  []*faultRow `json:"rows"`
}

// faultResult is what a driver has seen of a row.
type faultResult struct {
	N     int    `json:"n"`
	Job   int64  `json:"job"`
	Began int    `json:"began"` // runs of the handler
	Wrong string `json:"wrong"`
}

// TestFaults runs sdk/faults.json: each fault on each call of the clients and workers in Go, Python
// and TypeScript. No job fails or runs twice because of an answer that is not the server's, all
// errors are typed, and the worker goes on. Without SOJOURN_FAULTS=all only the short rows run.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the table of faults")
	}
	text, err := os.ReadFile("../../sdk/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	var table faultTable
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	for name, drive := range faultDrivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, rows := drive(t), faultRows(&table, os.Getenv("SOJOURN_FAULTS") == "all")
			runFaults(t, &table, rows, run, faultLease)
		})
	}
}

// TestFaultsControl is the control arm: a row without a fault is good, and one in which the server
// itself refuses the outcome is not.
func TestFaultsControl(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the table of faults")
	}
	own := &fault{Name: "own_422", Status: 422, Headers: map[string]string{"Content-Type": "application/problem+json"},
		Body: `{"type":"about:blank","title":"x","status":422,"detail":"from the control arm","code":"invalid","retryable":false}`}
	for name, drive := range faultDrivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := []*faultRow{{Call: "none", fault: &fault{Name: "none"}}, {Call: "finish", fault: own}}
			results := judged(t, &faultTable{Calls: map[string][]string{"finish": {"/v1/finish"}}}, rows, drive(t), faultLease)
			if results[0] != "" || !strings.Contains(results[1], "ran 2 times") {
				t.Errorf("without a fault: %q; with a refusal of the outcome: %q", results[0], results[1])
			}
		})
	}
}

// TestLeaseIsLetGo: a report that nobody of ours answers is not repeated for ever. The lease ends,
// the job runs again, and the worker has its slot.
func TestLeaseIsLetGo(t *testing.T) {
	object := &fault{Name: "object", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: "{}", Times: -1, Before: true}
	for name, drive := range faultDrivers {
		if name == "go" { // its worker repeats reports of many jobs together, and has no such limit
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := &faultRow{Call: "finish", fault: object, only: `"epoch":1,`}
			results := judged(t, &faultTable{Calls: map[string][]string{"finish": {"/v1/finish"}}}, []*faultRow{row}, drive(t), 1)
			if !strings.Contains(results[0], "the handler ran") { // more than twice, if the machine holds up a heartbeat
				t.Errorf("%q, want that the job has run again", results[0])
			}
		})
	}
}

// faultRows are the rows of the table for one client.
func faultRows(table *faultTable, all bool) (rows []*faultRow) {
	for _, f := range table.Faults {
		for _, call := range slices.Sorted(maps.Keys(table.Calls)) {
			if (all || f.Short) && !slices.Contains(f.Skip, call) && (f.Only == nil || slices.Contains(f.Only, call)) {
				rows = append(rows, &faultRow{Call: call, fault: f})
			}
		}
	}
	return rows
}

// faultDrivers start the program of a client: it reads rows, and reports each that it has ended.
var faultDrivers = map[string]func(t *testing.T) func(ctx context.Context, in faultInput, done func(faultResult)) error{
	"go": func(*testing.T) func(context.Context, faultInput, func(faultResult)) error { return driveFaults },
	"python": func(t *testing.T) func(context.Context, faultInput, func(faultResult)) error {
		return runsTable(sdkProgram(t, "python", "faults"))
	},
	"typescript": func(t *testing.T) func(context.Context, faultInput, func(faultResult)) error {
		return runsTable(sdkProgram(t, "typescript", "faults"))
	},
}

// runsTable runs a program that reads the rows as JSON and writes a line of JSON for each result.
func runsTable(command []string) func(ctx context.Context, in faultInput, done func(faultResult)) error {
	return func(ctx context.Context, in faultInput, done func(faultResult)) error {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, command[0], command[1])
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stdin = strings.NewReader(string(text))
		var log strings.Builder
		cmd.Stderr = &log
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = proctest.Start(cmd)
		}
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r faultResult
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				_ = cmd.Process.Kill()
				return errors.Join(fmt.Errorf("%q is no result: %w", lines.Text(), err), cmd.Wait())
			}
			done(r)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w\n%s", err, log.String()[max(log.Len()-4000, 0):])
		}
		return nil
	}
}

// runFaults judges all rows, and prints a table of calls by faults.
func runFaults(t *testing.T, table *faultTable, rows []*faultRow, run func(context.Context, faultInput, func(faultResult)) error, lease float64) {
	results := judged(t, table, rows, run, lease)
	calls := slices.Sorted(maps.Keys(table.Calls))
	cells, names := map[string]map[string]string{}, []string{}
	bad := 0
	for i, row := range rows {
		name := row.fault.Name
		if cells[name] == nil {
			cells[name] = map[string]string{}
			names = append(names, name)
		}
		cells[name][row.Call] = "pass"
		if results[i] != "" {
			cells[name][row.Call] = "FAIL"
			bad++
			t.Errorf("%s on %s: %s", name, row.Call, results[i])
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d of %d rows passed\n%-24s", len(rows)-bad, len(rows), "")
	for _, call := range calls {
		fmt.Fprintf(&out, " %-8s", call)
	}
	for _, name := range names {
		fmt.Fprintf(&out, "\n%-24s", name)
		for _, call := range calls {
			fmt.Fprintf(&out, " %-8s", cmp.Or(cells[name][call], "-"))
		}
	}
	t.Log(out.String())
}

// judged runs rows against a server of their own and returns the fault of each row, or "".
func judged(t *testing.T, table *faultTable, rows []*faultRow, run func(context.Context, faultInput, func(faultResult)) error, lease float64) []string {
	url, token := serveScenario(t)
	for i, row := range rows {
		row.N, row.left = i, cmp.Or(row.fault.Times, 2)
		row.extended, row.over = make(chan struct{}), make(chan struct{})
	}
	p := &faultProxy{T: t, server: url, calls: table.Calls, rows: rows}
	store, err := httpapi.Dial(url, httpapi.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), faultPatience)
	defer cancel()
	wrong := make([]string, len(rows))
	for i := range wrong {
		wrong[i] = "the driver did not come to its end"
	}
	if err := run(ctx, faultInput{URL: p.start(), Token: token, Lease: lease, Limit: atATime, Rows: rows}, func(r faultResult) {
		wrong[r.N] = rows[r.N].judge(ctx, store, r)
	}); err != nil {
		t.Error(err)
	}
	return wrong
}

// judge returns the fault of a finished row, or "".
func (row *faultRow) judge(ctx context.Context, store *sojourn.Client, r faultResult) string {
	row.mu.Lock()
	met, written := row.met, row.written
	row.mu.Unlock()
	j, err := store.Get(ctx, sojourn.ID(r.Job))
	began := 1
	if row.Call == "respond" {
		began = 2 // and again with the answer
	}
	switch {
	case r.Wrong != "":
		return r.Wrong
	case err != nil:
		return err.Error()
	case j.State != sojourn.Completed || string(j.Result) != `"row"`:
		return fmt.Sprintf("the job is %v with the result %.80q: %.200s", j.State, j.Result, j.Error)
	case r.Began != began:
		return fmt.Sprintf("the handler ran %d times, not %d", r.Began, began)
	case j.Failures != 0 || j.Attempt != 1:
		return fmt.Sprintf("failures %d, attempt %d", j.Failures, j.Attempt)
	case met == 0 && row.Call != "none":
		return "no request met the fault"
	case written > faultBody:
		return fmt.Sprintf("the client took %d bytes of one answer", written)
	}
	return ""
}
