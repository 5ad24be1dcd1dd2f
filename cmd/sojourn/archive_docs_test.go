//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// TestPageOfArchives runs docs/guides/archive.md. Archives need the database: no server.
func TestPageOfArchives(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/archive.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -e\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script += block[1]
	}
	cmd := proctest.Script(t, script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(sojournCommand(t))+":"+os.Getenv("PATH"))
	out, err := proctest.CombinedOutput(cmd)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`(?m)^\{"id":1,.*"state":"completed".*"history":\[\{`, `(?m)^billing +1 +0 +`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the page does not print %s:\n%s", want, out)
		}
	}
}
