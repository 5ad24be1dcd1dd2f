// Command trace counts the functions, files and packages that each frequent call of a store crosses
// on SQLite, so that a change of the engine's structure can be measured. The calls are those of
// internal/callcost, alone and with warm caches.
//
//	go -C internal/tools run ./trace [-v] [PACKAGE ...]
//
// Packages are patterns of go list in this module, such as ./internal/sqlstore/... By default all
// packages of this module are traced that store/sqlite links. With -v it also lists the functions.
//
// go run -overlay adds a probe to each function, so the tree itself is never touched. A function
// literal counts as part of the function around it. Each count is the smallest of several lives.
// The end of a call races with its answer, so a count can vary by one or two.
package main

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed testdata/probe.go testdata/main.go
var programs embed.FS

const (
	module   = "github.com/sojourn-queue/sojourn"
	probe    = "internal/probe" // the packages that exist for one run
	program  = "internal/probe/main"
	importAs = "probeEntered" // no other name of the module
)

// function is one function of the traced packages.
type function struct{ File, Name string }

// overlay replaces and adds files of the module for one run.
type overlay struct {
	dir       string            // of the new contents
	Replace   map[string]string // path in the module → path of its content
	functions []function
}

func main() {
	list := flag.Bool("v", false, "list the functions")
	flag.Parse()
	if err := os.Chdir("../.."); err != nil { // go -C internal/tools run stands in internal/tools
		fatal(err)
	}
	if err := trace(flag.Args(), *list); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "trace:", err)
	os.Exit(1)
}

func trace(patterns []string, list bool) (err error) {
	o := overlay{Replace: map[string]string{}}
	if o.dir, err = os.MkdirTemp("", "trace"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	files, err := sources(patterns)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := o.addProbes(f); err != nil {
			return err
		}
	}
	if err := o.addProgram(); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	run := exec.Command("go", "run", "-overlay", file, "./"+program, fmt.Sprint("-v=", list))
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	return run.Run()
}

// sources lists the Go files of packages, relative to the root of the module and without tests.
func sources(patterns []string) (files []string, err error) {
	args := []string{"list", "-f", `{{if and .Module .Module.Main}}{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}}/{{.}}{{"\n"}}{{end}}{{end}}`}
	if len(patterns) == 0 {
		args = append(args, "-deps", "./store/sqlite")
	}
	list := exec.Command("go", append(args, patterns...)...)
	list.Stderr = os.Stderr
	text, err := list.Output()
	for _, file := range strings.Fields(string(text)) {
		files = append(files, strings.TrimPrefix(file, module+"/"))
	}
	return files, err
}

// addProbes adds the probes to a file.
func (o *overlay) addProbes(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	probed, err := o.instrument(file, text)
	if err != nil || probed == nil {
		return err
	}
	return o.add(file, probed)
}

// instrument returns the text of a file with a probe at the beginning of each function, on the line
// of its brace so that lines keep their numbers. It returns nil if the file has no function.
func (o *overlay) instrument(file string, text []byte) ([]byte, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	name := offset(syntax.Name.End())
	probed := append([]byte{}, text[:name]...)
	probed = fmt.Appendf(probed, "; import %s %q", importAs, module+"/"+probe)
	from, before := name, len(o.functions)
	for _, d := range syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		brace := offset(f.Body.Lbrace) + 1
		probed = append(probed, text[from:brace]...)
		probed = fmt.Appendf(probed, "%s.Enter(%d);", importAs, len(o.functions))
		from = brace
		o.functions = append(o.functions, function{file, nameOf(f)})
	}
	if len(o.functions) == before {
		return nil, nil
	}
	return append(probed, text[from:]...), nil
}

// nameOf is the name of a function, of a method with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return "(" + types.ExprString(f.Recv.List[0].Type) + ")." + f.Name.Name
}

// addProgram adds the program that runs the calls, and the package that its probes call.
func (o *overlay) addProgram() error {
	table := "package probe\n\n// Functions are all traced functions.\nvar Functions = []struct{ File, Name string }{\n"
	for _, f := range o.functions {
		table += fmt.Sprintf("\t{%q, %q},\n", f.File, f.Name)
	}
	text, err := format.Source([]byte(table + "}\n"))
	if err != nil {
		return err
	}
	if err := o.add(probe+"/functions.go", text); err != nil {
		return err
	}
	for from, to := range map[string]string{"testdata/probe.go": probe + "/probe.go", "testdata/main.go": program + "/main.go"} {
		if text, err = programs.ReadFile(from); err == nil {
			err = o.add(to, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add replaces or adds a file of the module.
func (o *overlay) add(file string, text []byte) error {
	at, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	content := filepath.Join(o.dir, fmt.Sprint(len(o.Replace), ".go"))
	o.Replace[at] = content
	return os.WriteFile(content, text, 0o600)
}
