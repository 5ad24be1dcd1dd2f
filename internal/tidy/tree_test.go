package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is where the tree begins, seen from this package.
const root = "../.."

// file is one file of the tree. Its path is relative to the root and has slashes. syntax is nil
// unless it is Go.
type file struct {
	path   string
	text   []byte
	set    *token.FileSet
	syntax *ast.File
}

// tree is every text file below the root that is not ignored, in the order of the paths.
// Directories are walked by this process itself, so that the cache of go test sees a new file.
var tree = sync.OnceValues(func() ([]*file, error) {
	ignored, err := ignoredNames(os.ReadFile(filepath.Join(root, ".gitignore")))
	if err != nil {
		return nil, err
	}
	var files []*file
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) { // a temporary file of another test
				return nil
			}
			return err
		}
		name, _ := filepath.Rel(root, at)
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && (d.Name() == ".git" || ignored(name)):
			return filepath.SkipDir
		case !d.Type().IsRegular() || ignored(name):
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return nil // gone meanwhile, or not text
		}
		f, err := parse(name, text)
		files = append(files, f)
		return err
	})
	return files, err
})

// ignoredNames reads the two forms of pattern that our .gitignore has: "/name" at the root, "name"
// anywhere.
func ignoredNames(patterns []byte, err error) (func(string) bool, error) {
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := strings.Fields(string(patterns))
	return func(name string) bool {
		for _, p := range lines {
			p = strings.TrimSuffix(p, "/")
			against := path.Base(name)
			if rooted, ok := strings.CutPrefix(p, "/"); ok {
				p, against = rooted, name
			}
			if ok, _ := path.Match(p, against); ok {
				return true
			}
		}
		return false
	}, nil
}

func parse(name string, text []byte) (*file, error) {
	f := &file{path: name, text: text, set: token.NewFileSet()}
	if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
		return f, nil
	}
	var err error
	f.syntax, err = parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func (f *file) dir() string { return path.Dir(f.path) }

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *file) isGenerated() bool { return f.syntax != nil && ast.IsGenerated(f.syntax) }

func (f *file) line(p token.Pos) int { return f.set.Position(p).Line }

// at formats a finding: the position, then the error and its remedy.
func (f *file) at(p token.Pos, format string, a ...any) string {
	return f.atLine(f.line(p), format, a...)
}

func (f *file) atLine(line int, format string, a ...any) string {
	return f.path + ":" + strconv.Itoa(line) + ": " + fmt.Sprintf(format, a...)
}

// law finds the breaches in one file.
type law func(*file) []string

// obey runs a law over the whole tree.
func obey(t *testing.T, l law) {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, found := range l(f) {
			t.Error(found)
		}
	}
}

// goOnly restricts a law to Go files that a person wrote.
func goOnly(l law) law {
	return func(f *file) []string {
		if f.syntax == nil || f.isGenerated() {
			return nil
		}
		return l(f)
	}
}

// planted is a text that breaks a law at one place, or none if want is empty.
type planted struct {
	path string
	text string
	want string // the beginning of the only finding
}

// finds shows the law each text.
func (l law) finds(t *testing.T, all ...planted) {
	t.Helper()
	for _, p := range all {
		f, err := parse(p.path, []byte(p.text))
		if err != nil {
			t.Fatal(err)
		}
		found := l(f)
		switch {
		case p.want == "" && len(found) > 0:
			t.Errorf("found %q in the lawful text\n%s", found, p.text)
		case p.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], p.want)):
			t.Errorf("found %q, want one that begins with %q, in\n%.600s", found, p.want, p.text)
		}
	}
}

// entry returns the files of the tree with this path, so that a law about one file can skip a tree
// without it.
func entry(t *testing.T, name string) *file {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.path == name {
			return f
		}
	}
	return nil
}

// dirs returns the directories of this module that hold Go files besides tests. A go.mod below the
// root begins another module.
func dirs(files []*file) map[string][]*file {
	nested := map[string]bool{}
	for _, f := range files {
		if path.Base(f.path) == "go.mod" && f.dir() != "." {
			nested[f.dir()] = true
		}
	}
	found := map[string][]*file{}
	for _, f := range files {
		in := f.dir()
		for in != "." && !nested[in] {
			in = path.Dir(in)
		}
		if f.syntax != nil && !f.isTest() && in == "." {
			found[f.dir()] = append(found[f.dir()], f)
		}
	}
	return found
}

func TestTreeHoldsWhatItShould(t *testing.T) {
	for _, name := range []string{"go.mod", "sojourn.go", "internal/tidy/tree_test.go"} {
		if entry(t, name) == nil {
			t.Errorf("%s is not in the tree that the laws look at", name)
		}
	}
	ignored, _ := ignoredNames([]byte("/sojourn\n*.db\n/out/\n"), nil)
	for name, want := range map[string]bool{"sojourn": true, "cmd/sojourn": false, "examples/a/jobs.db": true, "out": true, "job.go": false} {
		if ignored(name) != want {
			t.Errorf("ignored(%q) = %v", name, !want)
		}
	}
}
