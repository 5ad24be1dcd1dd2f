package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// commandLine runs a command line in this process.
func commandLine(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), &cli.App{In: strings.NewReader(""), Out: &o, Err: &e, Env: func(string) string { return "" }}, args)
	return code, o.String(), e.String()
}

// tamper changes a store behind its back.
func tamper(t *testing.T, file, sql string) {
	t.Helper()
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, q := range []string{"pragma ignore_check_constraints = 1", sql} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A scheduled job that nothing will ever look at again (inv:L1): doctor says so, in both forms,
// with exit code 1.
func TestDoctorFindsAPlantedViolation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	if code, _, errs := commandLine(t, "--store", file, "enqueue", "mail", "--delay", "1h"); code != cli.ExitOK {
		t.Fatal(errs)
	}
	if code, out, _ := commandLine(t, "--store", file, "doctor"); code != cli.ExitOK || strings.Contains(out, "violation") || !strings.Contains(out, "wake-ups") {
		t.Fatalf("a healthy store: %d\n%s", code, out)
	}
	tamper(t, file, "update sj_live set wake_at_us = 9223372036854775807")
	code, out, errs := commandLine(t, "--store", file, "doctor")
	if code != cli.ExitFailed || !strings.Contains(out, "1 violation") || !strings.Contains(errs, "found violations") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	code, out, _ = commandLine(t, "--store", file, "doctor", "-o", "json")
	if code != cli.ExitFailed || !strings.HasPrefix(out, `{"healthy":false,`) || strings.Count(out, "\n") != 1 {
		t.Errorf("%d %s", code, out)
	}
}

// TestDoctorReadsWhatCommandsRead: what job ls or another command cannot read, doctor finds.
func TestDoctorReadsWhatCommandsRead(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		fail []string
	}{
		"a policy": {"update sj_job set policy = '{'", []string{"job", "get", "1"}},
		"tags":     {"update sj_job set tags = '{'", []string{"job", "ls"}},
		"meta":     {"update sj_job set meta = '['", []string{"job", "get", "1"}},
		"grants":   {"update sj_access set grants = '{'", []string{"token", "ls"}},
	} {
		file := filepath.Join(t.TempDir(), "jobs.db")
		for _, args := range [][]string{{"enqueue", "mail", "--tag", "a"}, {"token", "create", "--name", "n", "--verb", "read"}} {
			if code, _, errs := commandLine(t, append(args, "--store", file)...); code != cli.ExitOK {
				t.Fatal(errs)
			}
		}
		tamper(t, file, c.sql)
		if code, out, _ := commandLine(t, append(c.fail, "--store", file)...); code == cli.ExitOK {
			t.Errorf("%s: %v reads it: %s", name, c.fail, out)
		}
		if code, out, errs := commandLine(t, "--store", file, "doctor"); code == cli.ExitOK || !strings.Contains(out, "cannot be read") {
			t.Errorf("%s: doctor ends with %d\n%s%s", name, code, out, errs)
		}
	}
}

// TestRestoreOfNothing: a backup that is not there is no reason to create a store.
func TestRestoreOfNothing(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := commandLine(t, "--store", filepath.Join(dir, "jobs.db"), "store", "restore", filepath.Join(dir, "missing.db"))
	if code == cli.ExitOK || !strings.Contains(errs, "there is no backup at") || strings.Contains(errs, "enqueue") || strings.Contains(errs, "migrate") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs = commandLine(t, "--store", filepath.Join(dir, "jobs.db"), "store", "backup", filepath.Join(dir, "b.db")); code == cli.ExitOK ||
		strings.Contains(errs, "backup at") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestEmptyPattern: an empty pattern, as of a variable that is not set, does not open everything.
func TestEmptyPattern(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	for _, flag := range []string{"--queue", "--kind"} {
		code, out, errs := commandLine(t, "--store", file, "token", "create", "--name", "n", "--verb", "read", flag, "")
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, "'*'") {
			t.Errorf("%s '': %d %s%s", flag, code, out, errs)
		}
		if code, _, errs := commandLine(t, "--store", file, "token", "create", "--name", "n", "--verb", "read", flag, "*"); code != cli.ExitOK {
			t.Errorf("%s '*': %d %s", flag, code, errs)
		}
	}
}

// A ledger that does not say what its jobs hold is found, and repaired where that is asked for.
// inv:T2
func TestDoctorRepairsTheLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	for _, args := range [][]string{{"queue", "set", "calls", "--limit", "2"}, {"enqueue", "call", "--queue", "calls"}} {
		if code, _, errs := commandLine(t, append(args, "--store", file)...); code != cli.ExitOK {
			t.Fatal(errs)
		}
	}
	tamper(t, file, "insert into sj_flight (queue, lane, held) values ('calls', '-', 2)") // so that nothing would start
	const said = "queue calls: the ledger said 2 in lane -, its jobs hold 0"
	if code, out, _ := commandLine(t, "--store", file, "doctor"); code != cli.ExitFailed || strings.Contains(out, said) {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, errs := commandLine(t, "--store", file, "doctor", "--repair"); code != cli.ExitOK || !strings.Contains(out, said) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if code, out, _ := commandLine(t, "--store", file, "doctor", "--repair", "-o", "json"); code != cli.ExitOK || strings.Contains(out, "repaired") {
		t.Errorf("nothing is left to repair: %d\n%s", code, out)
	}
}

// A schema that is too old or too new is no wrong usage: status says 1, and what cannot go on says
// 5.
func TestSchemaOfAnotherVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	if code, _, errs := commandLine(t, "--store", file, "migrate", "up"); code != cli.ExitOK {
		t.Fatal(errs)
	}
	tamper(t, file, "update sj_migration set version = 99, needs = 99 where version = (select max(version) from sj_migration)")
	for _, c := range []struct {
		args []string
		want int
	}{{[]string{"migrate", "status"}, cli.ExitFailed}, {[]string{"job", "ls"}, cli.ExitUnavailable}, {[]string{"migrate", "up"}, cli.ExitUnavailable}} {
		if code, _, errs := commandLine(t, append(c.args, "--store", file)...); code != c.want || !strings.Contains(errs, "use a newer program") {
			t.Errorf("%v on a newer schema: %d %s", c.args, code, errs)
		}
	}
	tamper(t, file, "update sj_migration set needs = 1")
	if code, _, errs := commandLine(t, "--store", file, "job", "ls"); code != cli.ExitOK {
		t.Errorf("a newer schema that older programs may use: %d %s", code, errs)
	}
	tamper(t, file, "delete from sj_migration")
	if code, _, errs := commandLine(t, "--store", file, "migrate", "status"); code != cli.ExitFailed || !strings.Contains(errs, "migrate up") {
		t.Errorf("status of an older schema: %d %s", code, errs)
	}
}
