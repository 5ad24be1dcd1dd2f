//go:build unix

package main

import (
	"regexp"
	"testing"
)

// TestPageOfStatistics runs docs/guides/statistics.md.
func TestPageOfStatistics(t *testing.T) {
	runOnFileAndServer(t, "statistics.md", "statistics.db", "set -e\n", func(t *testing.T, out string) {
		for _, want := range []string{`(?m)^default +mail +2 +2 +0 `, `(?m)^default +invoice +1 +0 +1 `, `(?m)^\d{4}-\d\d-\d\d +mail +2 +2 +0 `, `(?m)^exit_1 +1$`, `"kind":"mail","enqueued":2,"completed":2`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the page does not print %s:\n%s", want, out)
			}
		}
	})
}
