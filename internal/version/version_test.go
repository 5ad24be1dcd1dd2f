package version

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// places are the files that state the number, each with the text around it.
var places = []struct {
	file string
	line string // a pattern whose group is the number
}{
	{"sdk/python/pyproject.toml", `(?m)^version = "([^"]+)"$`},
	{"sdk/python/sojourn/__init__.py", `(?m)^__version__ = "([^"]+)"$`},
	{"sdk/typescript/package.json", `(?m)^  "version": "([^"]+)",$`},
	{"sdk/typescript/src/index.ts", `(?m)^export const version = "([^"]+)";$`},
	{"docs/reference/compatibility.md", `(?m)^This page describes version ([0-9.]+[0-9])\.$`},
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNumberIsTheSameEverywhere(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(Number) {
		t.Errorf("Number is %q, want x.y.z", Number)
	}
	for _, p := range places {
		found := regexp.MustCompile(p.line).FindStringSubmatch(read(t, p.file))
		if found == nil {
			t.Errorf("%s: no line matches %s", p.file, p.line)
		} else if found[1] != Number {
			t.Errorf("%s: version %s, want %s", p.file, found[1], Number)
		}
	}
}

// The changelog may be ahead of no release: its newest heading is this version or an older one.
func TestChangelogHasNoLaterVersion(t *testing.T) {
	for _, heading := range headings(read(t, "CHANGELOG.md")) {
		if later(heading, Number) {
			t.Errorf("CHANGELOG.md has a heading for %s, and Number is %s", heading, Number)
		}
	}
	if !later("0.10.0", "0.9.3") || later("0.9.3", "0.10.0") || later("1.0.0", "1.0.0") {
		t.Error("later compares numbers wrongly")
	}
}

func TestBuild(t *testing.T) {
	if got := Current(); !strings.HasPrefix(got.Version, Number) {
		t.Errorf("%+v", got)
	}
	main := func(v string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "github.com/sojourn-queue/sojourn", Version: v}}
	}
	for v, want := range map[string]bool{"v" + Number: true, "v" + Number + "+dirty": false, "(devel)": false, "v9.9.9": false, "": false} {
		if installed(main(v)) != want {
			t.Errorf("installed(%q) = %v, want %v", v, !want, want)
		}
	}
	dep := &debug.BuildInfo{Deps: []*debug.Module{{Path: "github.com/sojourn-queue/sojourn", Version: "v" + Number}}}
	if !installed(dep) {
		t.Error("a program that links the module has its version")
	}
	dep.Deps[0].Replace = &debug.Module{Path: ".."}
	if installed(dep) {
		t.Error("a replaced module is no release")
	}
}
