package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// One word for one thing. Each of these names something that has another name here.
var instead = map[string]string{
	"payload": "args, body or result",
	"jid":     "id",
	"klass":   "kind",
	"dequeue": "claim",
	"reaper":  "sweep",
	"janitor": "sweep",
	"orphan":  "inbox, early or unmatched",
	"unfail":  "redrive",
	"quota":   "limit",
	"eta":     "run_at",
}

// Parts of type names, and names of packages, that say nothing about what stands behind them.
var (
	emptyParts    = []string{"manager", "service", "helper", "helpers", "util", "utils", "base", "info", "impl"}
	emptyPackages = []string{"base", "common", "helper", "helpers", "misc", "models", "shared", "types", "util", "utils"}
)

// parts splits a name at its capitals and at everything that is no letter or digit, and gives the
// parts in lower case.
func parts(name string) (all []string) {
	var part []rune
	runes := []rune(name)
	flush := func() {
		if len(part) > 0 {
			all = append(all, strings.ToLower(string(part)))
		}
		part = nil
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		afterLower := i > 0 && !unicode.IsUpper(runes[i-1])
		beforeLower := i > 0 && i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])
		if unicode.IsUpper(r) && (afterLower || beforeLower) {
			flush()
		}
		part = append(part, r)
	}
	flush()
	return all
}

// avoided returns the first avoided word in a text, with the word to use. Longer words are found in
// their other forms too.
func avoided(text string) (word, use string) {
	for _, p := range parts(text) {
		for w, use := range instead {
			if p == w || len(w) > 4 && strings.HasPrefix(p, w) {
				return p, use
			}
		}
	}
	return "", ""
}

// declared looks at the names of types, functions, methods, fields, constants and package
// variables.
func declared(f *file) (found []string) {
	check := func(n *ast.Ident) {
		if word, use := avoided(n.Name); word != "" {
			found = append(found, f.at(n.Pos(), "%s: the word here is %s, not %s", n.Name, use, word))
		}
	}
	fields := func(list *ast.FieldList) {
		for _, field := range list.List {
			for _, n := range field.Names {
				check(n)
			}
		}
	}
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					check(s.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						check(n)
					}
				}
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			fields(n.Fields)
		case *ast.InterfaceType:
			fields(n.Methods)
		}
		return true
	})
	return found
}

var (
	sqlText  = regexp.MustCompile(`(?i)\b(select|insert\s+into|update\s+\w+\s+set|delete\s+from|(create|drop|alter)\s+(unique\s+)?(table|index|view|trigger))\b`)
	bareName = regexp.MustCompile(`^-{0,2}[A-Za-z0-9_.-]+$`)
)

// quoted looks at the strings in which names go out: SQL, JSON tags, and the flags, verbs and
// columns of the command, which are its strings of a single word.
func quoted(f *file) (found []string) {
	if f.isTest() {
		return nil
	}
	holdsSQL := strings.HasPrefix(f.path, "internal/sqlstore/") || strings.HasPrefix(f.path, "store/")
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			tag, _ := strconv.Unquote(field.Tag.Value)
			name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			if word, use := avoided(name); word != "" {
				found = append(found, f.at(field.Tag.Pos(), "JSON field %s: the word here is %s, not %s", name, use, word))
			}
			return true
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, _ := strconv.Unquote(lit.Value)
		if strings.HasPrefix(f.path, "cmd/") && bareName.MatchString(text) || holdsSQL || sqlText.MatchString(text) {
			if word, use := avoided(text); word != "" {
				found = append(found, f.at(lit.Pos(), "%.40q: the word here is %s, not %s", text, use, word))
			}
		}
		return true
	})
	return found
}

// sqlFile looks at every name in an SQL file, comments apart.
func sqlFile(f *file) (found []string) {
	if path.Ext(f.path) != ".sql" {
		return nil
	}
	for i, line := range strings.Split(string(f.text), "\n") {
		code, _, _ := strings.Cut(line, "--")
		if word, use := avoided(code); word != "" {
			found = append(found, f.atLine(i+1, "SQL: the word here is %s, not %s", use, word))
		}
	}
	return found
}

// sayingNames: a name part that fits every type says nothing about this one.
func sayingNames(f *file) (found []string) {
	if name := f.syntax.Name; slices.Contains(emptyPackages, name.Name) {
		found = append(found, f.at(name.Pos(), "package %s: name it after what it provides", name.Name))
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.TypeSpec)
		if !ok || !s.Name.IsExported() {
			return true
		}
		for _, p := range parts(s.Name.Name) {
			if slices.Contains(emptyParts, p) {
				found = append(found, f.at(s.Pos(), "type %s: %q says nothing, name what it is", s.Name.Name, p))
			}
		}
		return true
	})
	return found
}

func TestWordsOfIdentifiers(t *testing.T) { obey(t, goOnly(declared)) }

func TestWordsOfStrings(t *testing.T) { obey(t, goOnly(quoted)) }

func TestWordsOfSQL(t *testing.T) { obey(t, sqlFile) }

func TestSayingNames(t *testing.T) { obey(t, goOnly(sayingNames)) }

func TestParts(t *testing.T) {
	for name, want := range map[string]string{
		"IDLife": "[id life]", "run_at_us": "[run at us]", "HTTPServerInfo": "[http server info]", "metadata": "[metadata]", "Base64": "[base64]",
		"--dry-run": "[dry run]", "select eta, id": "[select eta id]", "": "[]",
	} {
		if got := fmt.Sprint(parts(name)); got != want {
			t.Errorf("parts(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestAvoidedWordsArePlanted(t *testing.T) {
	for word := range instead {
		name := strings.ToUpper(word[:1]) + word[1:]
		law(declared).finds(t, planted{"a.go", "package a\n\nvar My" + name + " int\n", "a.go:3: My" + name})
	}
	law(declared).finds(t,
		planted{"a.go", "package a\n\nfunc MetadataBeta() {}\n", ""},
		planted{"a.go", "package a\n\nfunc (t T) DequeueAll() {}\n", "a.go:3: DequeueAll: the word here is claim"},
		planted{"a.go", "package a\n\ntype T struct {\n\tPayloads int\n}\n", "a.go:4: Payloads"},
		planted{"a.go", "package a\n\ntype T interface{ Unfail() }\n", "a.go:3: Unfail"},
		planted{"a.go", "package a\n\nconst maxQuota = 1\n", "a.go:3: maxQuota"},
	)
	law(quoted).finds(t,
		planted{"a.go", "package a\n\ntype T struct {\n\tA int `json:\"run_eta,omitempty\"`\n}\n", "a.go:4: JSON field run_eta"},
		planted{"a.go", "package a\n\nvar s = \"select jid from job\"\n", "a.go:3:"},
		planted{"a.go", "package a\n\nvar s = \"an orphan in prose\"\n", ""},
		planted{"store/a.go", "package a\n\nvar s = \"klass = $1\"\n", "store/a.go:3:"},
		planted{"cmd/a/a.go", "package main\n\nvar s = \"--quota\"\n", "cmd/a/a.go:3:"},
		planted{"cmd/a/a.go", "package main\n\nvar s = \"the quota of another system\"\n", ""},
	)
	law(sqlFile).finds(t,
		planted{"a.sql", "create table job (\n\tpayload blob\n);\n", "a.sql:2: SQL"},
		planted{"a.sql", "-- no payload here\nselect beta from job;\n", ""},
	)
	law(sayingNames).finds(t,
		planted{"a.go", "package a\n\ntype JobManager struct{}\n", "a.go:3: type JobManager"},
		planted{"a.go", "package a\n\ntype jobManager struct{}\n", ""},
		planted{"a.go", "package a\n\ntype Base64 struct{}\n", ""},
		planted{"a.go", "package util\n", "a.go:1: package util"},
	)
}
