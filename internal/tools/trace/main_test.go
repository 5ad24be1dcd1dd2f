package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestInstrument: each function gets a probe with its own number, and no line moves.
func TestInstrument(t *testing.T) {
	const text = `package p

import "os"

type list[T any] struct{}

func (l *list[T]) add(v T) {
	func() { os.Exit(1) }()
}

func external(n int) int

func one() int { return 1 }
`
	o := overlay{functions: []function{{"before.go", "f"}}}
	probed, err := o.instrument("a/p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", probed, 0); err != nil {
		t.Errorf("%v:\n%s", err, probed)
	}
	lines := strings.Split(string(probed), "\n")
	if len(lines) != strings.Count(text, "\n")+1 || !strings.Contains(lines[6], ".Enter(1);") || !strings.Contains(lines[12], ".Enter(2);") || strings.Count(string(probed), ".Enter(") != 2 {
		t.Errorf("probes:\n%s", probed)
	}
	if want := []function{{"before.go", "f"}, {"a/p.go", "(*list[T]).add"}, {"a/p.go", "one"}}; !slices.Equal(o.functions, want) {
		t.Errorf("functions: %v", o.functions)
	}
	if probed, err = o.instrument("a/doc.go", []byte("// Package p.\npackage p\n")); err != nil || probed != nil {
		t.Errorf("a file without functions: %q %v", probed, err)
	}
}
