package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"regexp"
	"slices"
	"testing"
)

// packageComments wants one comment for each package, the first sentence of its page.
func packageComments(files []*file) (found []string) {
	for _, in := range dirs(files) {
		if !slices.ContainsFunc(in, func(f *file) bool { return f.syntax.Doc != nil }) {
			f := in[0]
			found = append(found, f.at(f.syntax.Package, "package %s has no package comment: say what it is for", f.syntax.Name.Name))
		}
	}
	return found
}

// exportedDocs wants a comment for each exported name. A group of constants or variables may have
// one together. Nobody can refer to the names of a command or a test, and everybody knows what
// String and Error do.
func exportedDocs(f *file) (found []string) {
	if f.isTest() || f.syntax.Name.Name == "main" {
		return nil
	}
	missing := func(n *ast.Ident) {
		if n.IsExported() {
			found = append(found, f.at(n.Pos(), "%s is exported and has no comment: units, range, default, errors, concurrency", n.Name))
		}
	}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			wellKnown := d.Recv != nil && (d.Name.Name == "String" || d.Name.Name == "Error")
			if d.Doc == nil && !wellKnown && exportedReceiver(d) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				undocumented(d, s, missing)
			}
		}
	}
	return found
}

// smallInterface is the number of methods that the comment of an interface can describe with it.
const smallInterface = 3

// undocumented calls missing with the names of s that have no comment, those of interface methods
// among them.
func undocumented(d *ast.GenDecl, s ast.Spec, missing func(*ast.Ident)) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if d.Doc == nil && s.Doc == nil && s.Comment == nil {
			missing(s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() && i.Methods.NumFields() > smallInterface {
			for _, m := range i.Methods.List {
				for _, n := range m.Names {
					if m.Doc == nil && m.Comment == nil {
						missing(n)
					}
				}
			}
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if d.Doc == nil && s.Doc == nil && s.Comment == nil {
				missing(n)
			}
		}
	}
}

// exportedReceiver reports whether d is a function, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

func formatted(f *file) []string {
	want, err := format.Source(f.text)
	if err != nil {
		return []string{f.atLine(1, "%v", err)}
	}
	if bytes.Equal(want, f.text) {
		return nil
	}
	got, wanted := bytes.Split(f.text, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range got {
		if i >= len(wanted) || !bytes.Equal(got[i], wanted[i]) {
			return []string{f.atLine(i+1, "not formatted: run gofmt -w %s", f.path)}
		}
	}
	return []string{f.atLine(len(got), "not formatted: run gofmt -w %s", f.path)}
}

var leftOpen = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

// nothingLeftOpen: missing work is recorded in an issue, not in a comment.
func nothingLeftOpen(f *file) (found []string) {
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if word := leftOpen.FindString(c.Text); word != "" {
				found = append(found, f.at(c.Pos(), "%s: do it, or write an issue", word))
			}
		}
	}
	return found
}

func TestPackageComments(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range packageComments(files) {
		t.Error(found)
	}
}

func TestExportedDocs(t *testing.T) { obey(t, goOnly(exportedDocs)) }

func TestFormatted(t *testing.T) { obey(t, goOnly(formatted)) }

func TestNothingLeftOpen(t *testing.T) { obey(t, goOnly(nothingLeftOpen)) }

func TestMissingDocsArePlanted(t *testing.T) {
	law(exportedDocs).finds(t,
		planted{"a.go", "package a\n\n// F is.\nfunc F() {}\n", ""},
		planted{"a.go", "package a\n\nfunc F() {}\n", "a.go:3: F is exported"},
		planted{"a.go", "package a\n\nfunc f() {}\n", ""},
		planted{"a.go", "package main\n\nfunc F() {}\n", ""},
		planted{"a_test.go", "package a\n\nfunc F() {}\n", ""},
		planted{"a.go", "package a\n\ntype T struct{}\n", "a.go:3: T is exported"},
		planted{"a.go", "package a\n\n// T is.\ntype T[X any] struct{}\n\nfunc (t *T[X]) M() {}\n", "a.go:6: M is exported"},
		planted{"a.go", "package a\n\ntype t struct{}\n\nfunc (t) M() {}\n", ""},
		planted{"a.go", "package a\n\n// T is.\ntype T int\n\nfunc (T) String() string { return \"\" }\n", ""},
		planted{"a.go", "package a\n\n// T is.\ntype T interface {\n\t// M does.\n\tM()\n\tN()\n\to()\n\tp()\n}\n", "a.go:7: N is exported"},
		planted{"a.go", "package a\n\n// T is.\ntype T interface {\n\tM()\n}\n", ""},
		planted{"a.go", "package a\n\n// Numbers.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		planted{"a.go", "package a\n\nconst (\n\tA = 1 // the first\n\tB = 2\n)\n", "a.go:5: B is exported"},
		planted{"a.go", "package a\n\nvar V int\n", "a.go:3: V is exported"},
	)
	law(formatted).finds(t,
		planted{"a.go", "package a\n\nvar v int\n", ""},
		planted{"a.go", "package a\n\nvar  v int\n", "a.go:3: not formatted"},
	)
	law(nothingLeftOpen).finds(t,
		planted{"a.go", "package a\n\n// TO" + "DO: later\nvar v int\n", "a.go:3: TO" + "DO"},
		planted{"a.go", "package a\n\n// MASTODON is no breach.\nvar v int\n", ""},
	)
}

func TestMissingPackageCommentIsPlanted(t *testing.T) {
	var files []*file
	for name, text := range map[string]string{
		"go.mod": "module m\n", "a/a.go": "package a\n", "a/b.go": "// Package a is.\npackage a\n", "b/b.go": "package b\n", "c/c_test.go": "package c\n",
		"d/go.mod": "module d\n", "d/d.go": "package d\n", "d/e/e.go": "package e\n",
	} {
		f, err := parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if got := fmt.Sprint(packageComments(files)); got != "[b/b.go:1: package b has no package comment: say what it is for]" {
		t.Error(got)
	}
}
