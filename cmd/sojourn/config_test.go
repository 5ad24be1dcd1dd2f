package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestConfigReferenceIsComplete holds the table of docs/reference/config.md against the program.
func TestConfigReferenceIsComplete(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/config.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	all := allSettings((&app{env: os.Getenv}).root())
	for _, s := range all {
		if row := settingRow(s); !strings.Contains(string(b), row) {
			t.Errorf("docs/reference/config.md has no row %s", row)
		}
	}
	if rows != len(all) {
		t.Errorf("the table has %d rows, the program %d settings", rows, len(all))
	}
}

func settingRow(s setting) string {
	flag, value := "", "none"
	if s.flag != "" {
		flag = "`--" + s.flag + "`"
	}
	if s.value != "" {
		value = "`" + s.value + "`"
	}
	return fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", s.key, s.env, flag, value)
}

// A misspelt name is answered with the one that was meant.
func TestNearest(t *testing.T) {
	names := []string{"serve.addr", "serve.grace", "store"}
	for name, want := range map[string]string{"stor": "store", "serve.adr": "serve.addr", "serve.grase": "serve.grace", "colour": "", "": ""} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
