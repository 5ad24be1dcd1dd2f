package wire

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestTypesResolve: the type of each problem is a link to the code's section in
// docs/reference/errors.md, which says the status, and whether the write was stored.
func TestTypesResolve(t *testing.T) {
	_, page, ok := strings.Cut(strings.TrimSuffix(docsURL, "#"), "/blob/main/")
	if !ok {
		t.Fatal(docsURL)
	}
	b, err := os.ReadFile("../../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^### ([a-z_0-9]+)\n\n(HTTP (?:.+\n)+)`).FindAllStringSubmatch(string(b)+"\n", -1) {
		if sections[m[1]] != "" {
			t.Errorf("%s has the code %s twice", page, m[1])
		}
		sections[m[1]] = m[2]
	}
	for code, number := range status {
		outcome := "Stored: nothing"
		if Of(&sojourn.Error{Code: code, Index: -1}, "").Outcome == "unknown" {
			outcome = "Stored: unknown"
		}
		text := sections[code]
		if !strings.HasPrefix(text, fmt.Sprintf("HTTP %d", number)) || !strings.Contains(text, outcome) {
			t.Errorf("%s: the section of %s says %q, want HTTP %d and %q", page, code, text, number, outcome)
		}
		delete(sections, code)
	}
	for code := range sections {
		t.Errorf("%s has a code that no error has: %s", page, code)
	}
}
