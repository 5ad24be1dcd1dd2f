//go:build unix

package main

import (
	"net"
	"regexp"
	"testing"
)

// TestPageOfObservability runs docs/guides/observability.md, on a free port.
func TestPageOfObservability(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	runOnFileAndServer(t, "observability.md", "observability.db", "set -e\nexport METRICS="+l.Addr().String()+"\n", func(t *testing.T, out string) {
		for _, want := range []string{`sojourn_worker_ended_total\{kind="charge",outcome="error",queue="default",reason="exit_1"\} 1`,
			`"level":"ERROR","msg":"sojourn: a job failed","worker":".*","kind":"charge","queue":"default","job":1,"attempt":1,"reason":"exit_1"`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the page does not print %s:\n%s", want, out)
			}
		}
	})
}
