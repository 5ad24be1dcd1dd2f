//go:build unix

package main

import (
	"regexp"
	"testing"
)

// TestPageOfEvents runs docs/guides/events.md.
func TestPageOfEvents(t *testing.T) {
	runOnFileAndServer(t, "events.md", "events.db", "set -e\n", func(t *testing.T, out string) {
		for _, want := range []string{`(?m) default mail order-17 - -> ready$`, `(?m) default mail running -> completed$`, `(?m)^billing +`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the page does not print %s:\n%s", want, out)
			}
		}
	})
}
