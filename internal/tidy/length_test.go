package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a reader can hold: a function on one screen, a file in one sitting, the root in one look.
// Tests may be longer, because they are read from top to bottom.
const (
	maxFunction = 70
	maxTest     = 120
	maxFile     = 500
	maxRoot     = 34
	maxComment  = 100 // columns, with tabs of 4
)

// commentWidth looks at comments that have their lines to themselves. What a comment quotes may be
// longer: an indented line, the output of an example, a directive, a word such as a link.
func commentWidth(f *file) (found []string) {
	lines := strings.Split(string(f.text), "\n")
	for _, group := range f.syntax.Comments {
		quotes := false
		for _, c := range group.List {
			text := strings.TrimPrefix(c.Text, "//")
			quotes = quotes || strings.HasPrefix(strings.TrimSpace(text), "Output:")
			line := strings.TrimLeft(lines[f.line(c.Pos())-1], "\t")
			indent := 4 * (len(lines[f.line(c.Pos())-1]) - len(line))
			if !strings.HasPrefix(line, "// ") || strings.HasPrefix(text, " \t") || quotes || !strings.Contains(text[1:], " ") {
				continue
			}
			if n := indent + utf8.RuneCountInString(line); n > maxComment {
				found = append(found, f.at(c.Pos(), "the comment has %d columns, at most %d", n, maxComment))
			}
		}
	}
	return found
}

// functionLength counts from the line of the func to that of its last brace. Function literals
// count with the function they stand in. In tests, a composite literal without function literals is
// a table and does not count.
func functionLength(f *file) (found []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		name, typ := "function literal", (*ast.FuncType)(nil)
		switch n := n.(type) {
		case *ast.FuncDecl:
			name, typ = n.Name.Name, n.Type
		case *ast.FuncLit:
			typ = n.Type
		default:
			return true
		}
		limit, lines := maxFunction, f.lines(n)
		if f.isTest() || takesTest(typ) {
			limit, lines = maxTest, lines-f.tableLines(n)
		}
		if lines > limit {
			found = append(found, f.at(n.Pos(), "%s has %d lines, at most %d: split it where it changes its subject", name, lines, limit))
		}
		return false
	})
	return found
}

func (f *file) lines(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

// takesTest reports whether a parameter is a *testing.T or its like: the body is a test, wherever
// it stands.
func takesTest(typ *ast.FuncType) bool {
	for _, p := range typ.Params.List {
		x := p.Type
		if star, ok := x.(*ast.StarExpr); ok {
			x = star.X
		}
		if s, ok := x.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && (pkg.Name == "testing" || pkg.Name == "rapid") {
				return true
			}
		}
	}
	return false
}

func (f *file) tableLines(in ast.Node) (lines int) {
	ast.Inspect(in, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok || holdsFunction(table) {
			return true
		}
		lines += max(f.lines(table)-2, 0)
		return false
	})
	return lines
}

func holdsFunction(in ast.Node) (holds bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		_, function := n.(*ast.FuncLit)
		holds = holds || function
		return !holds
	})
	return holds
}

func fileLength(f *file) []string {
	switch path.Ext(f.path) {
	case ".go", ".sql", ".sh":
	default:
		return nil
	}
	if n := bytes.Count(f.text, []byte("\n")); n > maxFile && !f.isGenerated() {
		return []string{f.atLine(n, "the file has %d lines, at most %d: split it by subject", n, maxFile)}
	}
	return nil
}

// rootEntries takes the names at the root. Tests and dot files do not count.
func rootEntries(names []string) []string {
	var counted []string
	for _, n := range names {
		if !strings.HasPrefix(n, ".") && !strings.HasSuffix(n, "_test.go") {
			counted = append(counted, n)
		}
	}
	if len(counted) > maxRoot {
		return []string{fmt.Sprintf(".: the root has %d entries, at most %d: %s", len(counted), maxRoot, strings.Join(counted, " "))}
	}
	return nil
}

func TestFunctionLength(t *testing.T) { obey(t, goOnly(functionLength)) }

func TestFileLength(t *testing.T) { obey(t, fileLength) }

func TestCommentWidth(t *testing.T) { obey(t, goOnly(commentWidth)) }

func TestRootEntries(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := ignoredNames(os.ReadFile(root + "/.gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !ignored(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, found := range rootEntries(names) {
		t.Error(found)
	}
}

func TestLengthsArePlanted(t *testing.T) {
	body := func(n int) string { return strings.Repeat("\t_ = 1\n", n-2) }
	table := "\t_ = []int{\n" + strings.Repeat("\t\t1,\n", 100) + "\t}\n"
	calls := "\t_ = []func(){\n" + strings.Repeat("\t\tfunc() {},\n", 100) + "\t}\n"
	law(functionLength).finds(t,
		planted{"a.go", "package a\n\nfunc f() {\n" + body(70) + "}\n", ""},
		planted{"a.go", "package a\n\nfunc f() {\n" + body(71) + "}\n", "a.go:3: f has 71 lines"},
		planted{"a.go", "package a\n\nvar v = []func(){\n\tfunc() {\n" + body(71) + "\t},\n}\n", "a.go:4: function literal has 71 lines"},
		planted{"a.go", "package a\n\nvar v = []int{\n" + strings.Repeat("\t1,\n", 100) + "}\n", ""},
		planted{"a.go", "package a\n\nfunc f() {\n" + table + "}\n", "a.go:3: f has 104 lines"},
		planted{"a.go", "package a\n\nimport \"testing\"\n\nfunc C(t *testing.T) {\n" + body(120) + "}\n", ""},
		planted{"a_test.go", "package a\n\nfunc f() {\n" + body(120) + "}\n", ""},
		planted{"a_test.go", "package a\n\nfunc f() {\n" + body(121) + "}\n", "a_test.go:3: f has 121 lines"},
		planted{"a_test.go", "package a\n\nfunc f() {\n" + table + body(100) + "}\n", ""},
		planted{"a_test.go", "package a\n\nfunc f() {\n" + calls + body(100) + "}\n", "a_test.go:3: f has 202 lines"},
	)
	law(fileLength).finds(t,
		planted{"a.sql", strings.Repeat("--\n", 500), ""},
		planted{"a.sql", strings.Repeat("--\n", 501), "a.sql:501: the file has 501 lines"},
		planted{"a.md", strings.Repeat("-\n", 501), ""},
		planted{"a.go", "// Code generated by x. DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", 501), ""},
	)
	wide := "// " + strings.Repeat("ab ", 33) + "\n"
	law(commentWidth).finds(t,
		planted{"a.go", "package a\n\n" + wide[:100] + "\nvar a int\n", ""},
		planted{"a.go", "package a\n\n" + wide + "var a int\n", "a.go:3: the comment has 102 columns"},
		planted{"a.go", "package a\n\nfunc f() {\n\t" + wide[:99] + "\n}\n", "a.go:4: the comment has 103 columns"},
		planted{"a.go", "package a\n\n//\t" + wide[3:] + "var a int\n", ""},
		planted{"a.go", "package a\n\n//go:embed " + wide[3:] + "var a int\n", ""},
		planted{"a.go", "package a\n\n// https://" + strings.Repeat("a", 100) + "\nvar a int\n", ""},
	)
	many := strings.Split(strings.Repeat("x,", maxRoot)+"a_test.go,.ci", ",")
	if got := rootEntries(many); got != nil {
		t.Errorf("%d entries: %v", maxRoot, got)
	}
	if got := rootEntries(append(many, "x")); len(got) != 1 {
		t.Errorf("%d entries: %v", maxRoot+1, got)
	}
}
