package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// TestTerminal: untrusted text does not move the cursor, begin a line or change the text direction
// in the output of any command.
func TestTerminal(t *testing.T) {
	const evil = "a\u202eb\u2066c\u2028d"
	const shown = `a\u202eb\u2066c\u2028d`
	file := filepath.Join(t.TempDir(), "jobs.db")
	for _, args := range [][]string{
		{"enqueue", "mail", "--key", evil, "--group", evil, "--args", `{"to":"` + evil + `"}`},
		{"respond", "mail", "other" + evil, "--body", `"` + evil + `"`},
		{"token", "create", "--name", evil, "--verb", "read"},
	} {
		if code, _, errs := commandLine(t, append(args, "--store", file)...); code != cli.ExitOK {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	for _, line := range []string{"job ls", "job get 1", "job history 1", "inbox ls", "inbox get 1", "inbox near mail x", "token ls", "queue ls", "job get mail/none" + evil, "job ls --kind " + evil} {
		_, out, errs := commandLine(t, append(strings.Fields(line), "--store", file)...)
		for _, text := range []string{out, errs} {
			if strings.ContainsAny(text, "\u202e\u2066\u2028\x1b") {
				t.Errorf("%s: %q", line, text)
			}
		}
	}
	if _, out, _ := commandLine(t, "job", "ls", "--store", file); !strings.Contains(out, shown) {
		t.Errorf("job ls hides what it escapes: %s", out)
	}
	if _, out, _ := commandLine(t, "token", "ls", "--store", file); !strings.Contains(out, shown) {
		t.Errorf("token ls: %q", out)
	}
	if got, want := terminal.Clean("a\nb\x1b[2J\xffc\td"), `a\nb\x1b[2J`+"\uFFFD"+`c\td`; got != want {
		t.Errorf("one line: %q, want %q", got, want)
	}
	if got, want := terminal.Printable("a\nb\x1b[2J\r"+evil), "a\nb"+`\x1b[2J\r`+shown; got != want {
		t.Errorf("several lines: %q, want %q", got, want)
	}
}
