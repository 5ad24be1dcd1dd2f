package wire

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTypesResolve: the type of each problem is a link to the code's place in the table of
// docs/reference/http.md.
func TestTypesResolve(t *testing.T) {
	_, page, ok := strings.Cut(strings.TrimSuffix(docsURL, "#"), "/blob/main/")
	if !ok {
		t.Fatal(docsURL)
	}
	b, err := os.ReadFile("../../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]int{}
	for _, m := range regexp.MustCompile("<a id=\"([^\"]*)\"></a>`([a-z_0-9]+)`").FindAllSubmatch(b, -1) {
		if string(m[1]) != string(m[2]) {
			t.Errorf("the anchor %s stands at the code %s", m[1], m[2])
		}
		anchors[string(m[1])]++
	}
	for code := range status {
		if anchors[code] != 1 {
			t.Errorf("%s has %d anchors for the code %s", page, anchors[code], code)
		}
		delete(anchors, code)
	}
	for code := range anchors {
		t.Errorf("%s has a code that no error has: %s", page, code)
	}
}
