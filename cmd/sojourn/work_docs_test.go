//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// runOnFileAndServer runs the sh blocks of a page as they stand, and once more with the URL of a
// server in the place of the file that the page names. check gets the output of each run.
func runOnFileAndServer(t *testing.T, name, file, options string, check func(t *testing.T, out string)) {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/" + name)
	if err != nil {
		t.Fatal(err)
	}
	script := options
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script += block[1]
	}
	for _, over := range []string{"file", "server"} {
		t.Run(over, func(t *testing.T) {
			text := script
			if over == "server" {
				s := serve(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))
				const variable = "export SOJOURN_URL="
				if text = strings.Replace(script, variable+"sqlite:"+file+"\n", variable+s.url+"\n", 1); text == script {
					t.Fatal("the page names no store")
				}
			}
			cmd := proctest.Script(t, text)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(sojournCommand(t))+":"+os.Getenv("PATH"), "no_proxy=127.0.0.1")
			out, err := proctest.CombinedOutput(cmd)
			if err != nil {
				log, _ := os.ReadFile(filepath.Join(cmd.Dir, "work.log"))
				t.Fatalf("%v\n%s\n%s", err, out, log)
			}
			check(t, string(out))
		})
	}
}

// TestQuickstartWithBash runs docs/guides/bash.md.
func TestQuickstartWithBash(t *testing.T) {
	runOnFileAndServer(t, "bash.md", "quickstart.db", "", func(t *testing.T, out string) {
		for _, want := range []string{"job 1 is ready", "applied: response 1, job 1", "state     completed", `{"paid": true}`, `asking the bank for order order-42: {"cents": 1999}`,
			"the bank has answered", "job 2 import: failed (exit_65)", "none.csv: No such file"} {
			if !strings.Contains(strings.Replace(out, "early: ", "applied: ", 1), want) {
				t.Errorf("the page does not print %s:\n%s", want, out)
			}
		}
	})
}
