package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// TestConfigReferenceIsComplete compares the table of docs/reference/config.md with the settings
// that "sojourn config" shows, all of which have their defaults here.
func TestConfigReferenceIsComplete(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/config.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "| `") && strings.Contains(line, " | `SOJOURN_") { // not a setting of the store
			rows++
		}
	}
	t.Chdir(t.TempDir())
	code, out, errs := commandLine(t, "config", "-o", "json")
	if code != cli.ExitOK {
		t.Fatal(errs)
	}
	shown := 0
	for line := range strings.Lines(out) {
		shown++
		var s struct{ Key, Value, Env string }
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Key == "output" {
			s.Value = "table" // instead of the value of -o here
		}
		flag, value := "", "none"
		if s.Key != "token_file" {
			flag = "`--" + strings.ReplaceAll(s.Key[strings.Index(s.Key, ".")+1:], "_", "-") + "`"
		}
		if s.Value != "" {
			value = "`" + s.Value + "`"
		}
		if row := fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", s.Key, s.Env, flag, value); !strings.Contains(string(b), row) {
			t.Errorf("docs/reference/config.md has no row %s", row)
		}
	}
	if rows != shown {
		t.Errorf("the table has %d rows, the program %d settings", rows, shown)
	}
}
