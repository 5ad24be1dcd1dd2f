package tidy

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var replaces = regexp.MustCompile(`^\s*replace\b|^[^/]*=>`)

// ourTree has the directories of the modules that measure, test or extend the tree that they stand
// in, and the line with which they do. Of them users install only otelsojourn: their builds ignore
// its replace and take the release of this module that it requires, see TestRequiredRelease.
var ourTree = map[string]string{"bench": "replace " + module + " => ..", "internal/othersqlite": "replace " + module + " => ../..", "worker/otelsojourn": "replace " + module + " => ../.."}

// noReplace: go install and users' builds ignore a replace directive, so tests and users would run
// different code.
func noReplace(f *file) (found []string) {
	if path.Base(f.path) != "go.mod" {
		return nil
	}
	for i, line := range strings.Split(string(f.text), "\n") {
		if replaces.MatchString(line) && line != ourTree[f.dir()] {
			found = append(found, f.atLine(i+1, "replace: require a version that exists"))
		}
	}
	return found
}

// TestRequiredRelease: the module of the tracing is released together with this one, and needs what
// this version of it has.
func TestRequiredRelease(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "worker/otelsojourn/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := os.ReadFile(filepath.Join(root, "internal/version/version.go"))
	if err != nil {
		t.Fatal(err)
	}
	now := regexp.MustCompile(`const Number = "(.*)"`).FindSubmatch(number)
	if now == nil || !strings.Contains(string(text), module+" v"+string(now[1])+"\n") {
		t.Errorf("worker/otelsojourn/go.mod:1: require %s v%s", module, now[1])
	}
}

var (
	release  = regexp.MustCompile(`^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$`)
	sections = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
)

// changelog checks the format of keepachangelog.com: a title, the unreleased changes, releases with
// a date, six section names, no empty section.
func changelog(f *file) (found []string) {
	if f.path != "CHANGELOG.md" {
		return nil
	}
	lines := strings.Split(string(f.text), "\n")
	if lines[0] != "# Changelog" {
		found = append(found, f.atLine(1, "the title is # Changelog"))
	}
	releases, open := 0, 0 // open is the line of a section that has no entry yet
	for i, line := range lines {
		heading := strings.HasPrefix(line, "## ")
		section, isSection := strings.CutPrefix(line, "### ")
		switch {
		case (heading || isSection) && open > 0:
			found = append(found, f.atLine(open, "the section is empty: leave it out"))
		case strings.HasPrefix(line, "- "):
			open = 0
		}
		if heading {
			releases, open = releases+1, 0
			if first := line == "## [Unreleased]"; first != (releases == 1) || !first && !release.MatchString(line) {
				found = append(found, f.atLine(i+1, "%q: first comes ## [Unreleased], then ## [x.y.z] - yyyy-mm-dd", line))
			}
		}
		if isSection {
			open = i + 1
			if !slices.Contains(sections, section) {
				found = append(found, f.atLine(i+1, "section %q: use one of %v", section, sections))
			}
		}
	}
	if releases == 0 {
		found = append(found, f.atLine(1, "there is no ## [Unreleased]"))
	}
	return found
}

var (
	link       = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	inlineCode = regexp.MustCompile("`[^`]*`")
)

// prose gives the lines of a Markdown text without code.
func prose(text []byte) []string {
	lines := strings.Split(string(text), "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			lines[i] = ""
		}
		lines[i] = inlineCode.ReplaceAllString(lines[i], "")
		fenced = fenced != fence
	}
	return lines
}

// anchors are the fragments that GitHub gives the headings of a Markdown text, and those that the
// text sets itself.
func anchors(text []byte) map[string]bool {
	found := map[string]bool{}
	fenced := false
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		title := strings.TrimLeft(line, "#")
		for _, m := range anchor.FindAllStringSubmatch(line, -1) {
			found[m[1]] = !fenced
		}
		if fenced || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		for n, unique := 1, slug; ; n++ {
			if !found[unique] {
				found[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
	}
	return found
}

// links returns the law that relative links lead somewhere. read gives the text of a path from the
// root, nil for a directory.
func links(read func(string) ([]byte, error)) law {
	return func(f *file) (found []string) {
		if path.Ext(f.path) != ".md" {
			return nil
		}
		for i, line := range prose(f.text) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, fragment, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				text, err := f.text, error(nil)
				if target != "" {
					text, err = read(path.Join(f.dir(), target))
				}
				switch {
				case err != nil:
					found = append(found, f.atLine(i+1, "link to %s: there is no such file", m[1]))
				case fragment != "" && text != nil && !anchors(text)[fragment]:
					found = append(found, f.atLine(i+1, "link to %s: no heading or row there has this anchor", m[1]))
				}
			}
		}
		return found
	}
}

func readTree(name string) ([]byte, error) {
	at := filepath.Join(root, filepath.FromSlash(name))
	if s, err := os.Stat(at); err != nil || s.IsDir() {
		return nil, err
	}
	return os.ReadFile(at)
}

// Paths and addresses that only one machine has. A directory of one letter, as in an example, is
// nobody's.
var workplace = []*regexp.Regexp{
	regexp.MustCompile(`(^|[^\w.~*-])/(home|root|work|Users|srv)/\w\w`),
	regexp.MustCompile(`(?i)\b[a-z]:\\users\\`),
	regexp.MustCompile(`https?://[\w.-]+\.(internal|corp|lan|local)\b`),
	regexp.MustCompile(`\b(GOPROXY|GONOSUMDB|GONOSUMCHECK|GOINSECURE)=|\bGOSUMDB=off\b|\bproxy\.golang\.org\b`),
	regexp.MustCompile(`\b(https?_proxy|HTTPS?_PROXY)=`),
}

func noWorkplace(f *file) (found []string) {
	for i, line := range strings.Split(string(f.text), "\n") {
		for _, w := range workplace {
			if m := w.FindString(line); m != "" {
				found = append(found, f.atLine(i+1, "%q belongs to one machine, not to the project", m))
			}
		}
	}
	return found
}

// exampleSource is the program that README shows. It is compiled and run by its own test.
const (
	exampleSource = "examples/readme/main.go"
	maxExample    = 39
)

var blankLines = regexp.MustCompile(`\n+`)

// showsExample wants the program, without its package comment, as a Go block of README.
func showsExample(readme, program *file) (found []string) {
	code := string(program.text[program.set.Position(program.syntax.Package).Offset:])
	if n := len(blankLines.Split(code, -1)) - 1; n > maxExample {
		found = append(found, program.atLine(1, "the example has %d lines that are not blank, at most %d", n, maxExample))
	}
	if !strings.Contains(string(readme.text), "```go\n"+code+"```\n") {
		found = append(found, readme.atLine(1, "the Go block is not the text of %s from its package clause on: copy it", program.path))
	}
	return found
}

func TestNoReplace(t *testing.T) { obey(t, noReplace) }

func TestChangelog(t *testing.T) { obey(t, changelog) }

func TestLinks(t *testing.T) { obey(t, links(readTree)) }

func TestNoWorkplace(t *testing.T) { obey(t, noWorkplace) }

func TestReadmeShowsExample(t *testing.T) {
	readme, program := entry(t, "README.md"), entry(t, exampleSource)
	if readme == nil || program == nil {
		t.Fatalf("README.md and %s must both exist", exampleSource)
	}
	for _, found := range showsExample(readme, program) {
		t.Error(found)
	}
}

func TestTextIsPlanted(t *testing.T) {
	law(noReplace).finds(t,
		planted{"go.mod", "module a\n\nreplace b => ../b\n", "go.mod:3: replace"},
		planted{"bench/go.mod", "module a\n\nreplace (\n)\n", "bench/go.mod:3: replace"},
		planted{"bench/go.mod", "module a\n\n" + ourTree["bench"] + "\n", ""},
		planted{"bench/go.mod", "module a\n\nreplace b => ..\n", "bench/go.mod:3: replace"},
		planted{"internal/othersqlite/go.mod", "module a\n\n" + ourTree["internal/othersqlite"] + "\n", ""},
		planted{"internal/tools/go.mod", "module a\n\n" + ourTree["internal/othersqlite"] + "\n", "internal/tools/go.mod:3: replace"},
		planted{"go.mod", "module a // no replace here\n", ""},
	)
	head := "# Changelog\n\n## [Unreleased]\n"
	law(changelog).finds(t,
		planted{"CHANGELOG.md", head + "\n### Added\n\n- a\n\n## [0.1.0] - 2026-01-31\n", ""},
		planted{"CHANGELOG.md", head + "\n### New\n\n- a\n", "CHANGELOG.md:5: section \"New\""},
		planted{"CHANGELOG.md", head + "\n### Added\n\n### Fixed\n\n- a\n", "CHANGELOG.md:5: the section is empty"},
		planted{"CHANGELOG.md", head + "\n## 0.1.0\n", "CHANGELOG.md:5: \"## 0.1.0\""},
		planted{"CHANGELOG.md", "# Changelog\n\n## [0.1.0] - 2026-01-31\n", "CHANGELOG.md:3: "},
		planted{"CHANGELOG.md", "# Changelog\n", "CHANGELOG.md:1: there is no"},
		planted{"CHANGELOG.md", "# News\n\n## [Unreleased]\n", "CHANGELOG.md:1: the title"},
	)
	law(noWorkplace).finds(t,
		planted{"a.md", "see /wo" + "rk/tree\n", "a.md:1: "},
		planted{"a.md", "x\n\"/ho" + "me/me/jobs.db\"\n", "a.md:2: "},
		planted{"a.md", "http://mirror.la" + "n/x\n", "a.md:1: "},
		planted{"a.sh", "GOPROXY" + "=direct\n", "a.sh:1: "},
		planted{"a.md", "internal/work/x, /home/u/x, ~/work/xy, ./ro" + "ot/xy, https://example.com/work/x\n", ""},
	)
}

func TestLinksArePlanted(t *testing.T) {
	read := func(name string) ([]byte, error) {
		switch name {
		case "docs":
			return nil, nil
		case "docs/a.md":
			return []byte("# A title\n\n## Don't, or do `x`?\n\n```\n# not one\n```\n\n## A title\n"), nil
		}
		return nil, os.ErrNotExist
	}
	links(read).finds(t,
		planted{"README.md", "[a](docs/a.md) [b](docs) [c](https://example.com) [d](docs/a.md#dont-or-do-x) [e](docs/a.md#a-title-1)\n", ""},
		planted{"README.md", "# Top\n[a](docs/b.md)\n", "README.md:2: link to docs/b.md: there is no such file"},
		planted{"README.md", "[a](docs/a.md#not-one)\n", "README.md:1: link to docs/a.md#not-one: no heading"},
		planted{"README.md", "# Top\n[a](#top) [b](#bottom)\n", "README.md:2: link to #bottom"},
		planted{"README.md", "```\n[a](b)\n```\n`[a](b)`\n", ""},
		planted{"docs/b.md", "[a](a.md) [b](../docs/a.md)\n", ""},
		planted{"docs/b.md", "| <a id=\"tr-f2\"></a>F2 |\n[a](#tr-f2)\n", ""},
		planted{"docs/b.md", "| <a id=\"tr-f2\"></a>F2 |\n[a](#tr-f3)\n", "docs/b.md:2: link to #tr-f3: no heading"},
		planted{"docs/b.md", "[a](docs/a.md)\n", "docs/b.md:1: link"},
	)
}

func TestExampleIsPlanted(t *testing.T) {
	program, err := parse(exampleSource, []byte("// Command readme is.\npackage main\n\nfunc main() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	same := &file{path: "README.md", text: []byte("# X\n\n```go\npackage main\n\nfunc main() {}\n```\n")}
	other := &file{path: "README.md", text: []byte("# X\n\n```go\npackage main\n\nfunc main() { }\n```\n")}
	if got := showsExample(same, program); got != nil {
		t.Errorf("the same text: %v", got)
	}
	if got := showsExample(other, program); len(got) != 1 {
		t.Errorf("another text: %v", got)
	}
	long, err := parse(exampleSource, []byte("package main\n"+strings.Repeat("// x\n", 39)))
	if err != nil {
		t.Fatal(err)
	}
	if got := showsExample(&file{path: "README.md", text: []byte("```go\n" + string(long.text) + "```\n")}, long); len(got) != 1 {
		t.Errorf("a long text: %v", got)
	}
}
