package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// idPages are the pages that define ids. An id is written as its prefix, a colon, a letter and a
// number; a range has a dash and the last id without the prefix.
var idPages = map[string]string{
	"tr":    "docs/reference/transitions.md",
	"rules": "docs/reference/rules.md",
	"inv":   "docs/reference/invariants.md",
	"spec":  "docs/reference/spec.md",
}

var (
	anchor = regexp.MustCompile(`<a id="([^"]*)"></a>`)
	idLink = regexp.MustCompile(`^(tr|rules|inv|spec)-([a-z]\d+)$`)
	// A use has a known prefix, or any word as its prefix and a whole id behind the colon.
	idUse   = regexp.MustCompile(`\b(tr|rules|inv|spec):([A-Z]\d*)\b(?:-([A-Z]\d+))?|\b([a-z]+):([A-Z]\d{1,2})\b`)
	wholeID = regexp.MustCompile(`^[A-Z]\d{1,2}$`)
	bareID  = regexp.MustCompile(`(?:^|[\s(/*])([A-Z]\d{1,2})(?:[\s).,;:]|-[A-Z]\d|$)`)
)

// definitions are the ids that the pages define, such as tr:F2, and the errors of the pages.
func definitions(files []*file) (defined map[string]bool, found []string) {
	defined = map[string]bool{}
	for _, f := range files {
		if path.Ext(f.path) != ".md" {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, m := range anchor.FindAllStringSubmatch(line, -1) {
				id := idLink.FindStringSubmatch(m[1])
				if id == nil {
					continue
				}
				name := id[1] + ":" + strings.ToUpper(id[2])
				switch {
				case idPages[id[1]] != f.path:
					found = append(found, f.atLine(i+1, "%s is defined here, but its page is %s", name, idPages[id[1]]))
				case defined[name]:
					found = append(found, f.atLine(i+1, "%s is defined twice", name))
				}
				defined[name] = true
			}
		}
	}
	return defined, found
}

// usedIDs returns the law that each id leads to its definition: those with a prefix in any file,
// and the names of rows of the transition table that code and tests have as strings.
func usedIDs(defined map[string]bool) law {
	return func(f *file) (found []string) {
		check := func(line int, prefix, id string) {
			switch {
			case id == "" || defined[prefix+":"+id]:
			case idPages[prefix] == "":
				found = append(found, f.atLine(line, "%s:%s: no page defines ids with this prefix", prefix, id))
			default:
				found = append(found, f.atLine(line, "%s:%s is not defined in %s", prefix, id, idPages[prefix]))
			}
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, m := range idUse.FindAllStringSubmatch(line, -1) {
				check(i+1, m[1]+m[4], m[2]+m[5])
				check(i+1, m[1], m[3])
			}
		}
		if f.syntax == nil {
			return found
		}
		for at, id := range rowNames(f) {
			if !defined["tr:"+id] && !defined["rules:"+id] {
				found = append(found, f.at(at, "%s is neither a transition nor a rule, see docs/reference", id))
			}
		}
		return found
	}
}

// rowNames are the strings that name rows: the field Rule of a transition, the field tr of a test
// case, and the arguments of the test helpers rule, rules and after.
func rowNames(f *file) map[token.Pos]string {
	found := map[token.Pos]string{}
	add := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok {
			return
		}
		for id := range strings.FieldsSeq(strings.Trim(lit.Value, `"`)) {
			if id = strings.TrimSuffix(id, "id"); wholeID.MatchString(id) {
				found[lit.Pos()] = id
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && f.dir() == "rules" && (key.Name == "Rule" || key.Name == "tr") {
				add(n.Value)
			}
		case *ast.CallExpr:
			name := ""
			switch fun := n.Fun.(type) {
			case *ast.Ident:
				name = fun.Name
			case *ast.SelectorExpr:
				name = fun.Sel.Name
			}
			if f.dir() == "rules" && f.isTest() && (name == "rule" || name == "rules" || name == "after") {
				for _, a := range n.Args {
					add(a)
				}
			}
		}
		return true
	})
	return found
}

// noBareIDs wants the prefix of an id in a comment, so that its page is known. What a comment
// quotes does not count: an indented line, the output of an example.
func noBareIDs(f *file) (found []string) {
	for _, group := range f.syntax.Comments {
		quotes := false
		for _, c := range group.List {
			text := strings.TrimPrefix(c.Text, "//")
			quotes = quotes || strings.HasPrefix(strings.TrimSpace(text), "Output:")
			if m := bareID.FindStringSubmatch(text); m != nil && !quotes && !strings.HasPrefix(text, " \t") && !strings.HasPrefix(text, "\t") {
				found = append(found, f.at(c.Pos(), "%s: put the page of this id before it, such as tr:%s, or the reason in its place", m[1], m[1]))
			}
		}
	}
	return found
}

func TestIDsAreDefined(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	defined, found := definitions(files)
	for _, f := range found {
		t.Error(f)
	}
	obey(t, usedIDs(defined))
}

func TestIDsHavePrefixes(t *testing.T) { obey(t, goOnly(noBareIDs)) }

func TestIDsArePlanted(t *testing.T) {
	page := &file{path: idPages["tr"], text: []byte("| <a id=\"tr-f2\"></a>F2 |\n| <a id=\"tr-f2\"></a>F2 |\n<a id=\"inv-a1\"></a>\n<a id=\"top\"></a>\n")}
	defined, found := definitions([]*file{page})
	if got := fmt.Sprint(found); got != "["+page.path+":2: tr:F2 is defined twice "+page.path+":3: inv:A1 is defined here, but its page is docs/reference/invariants.md]" {
		t.Error(got)
	}
	usedIDs(defined).finds(t,
		planted{"a.md", "see tr:" + "F2 and inv:" + "A1", ""},
		planted{"a_test.go", "package a\n\n// TestX: tr:" + "F3.\n", "a_test.go:3: tr:" + "F3 is not defined in docs/reference/transitions.md"},
		planted{"a_test.go", "package a\n\n// TestX: tr:" + "F2-F3.\n", "a_test.go:3: tr:" + "F3 is not defined"},
		planted{"a.txt", "rules:" + "H", "a.txt:1: rules:" + "H is not defined"},
		planted{"a.txt", "x\nfield:" + "F13", "a.txt:2: field:" + "F13: no page"},
		planted{"a.txt", "prefix: A1, base64:AA, http://a:80, t:Z", ""},
		planted{"rules/a.go", "package a\n\nvar v = T{Rule: \"F2\"}\n", ""},
		planted{"rules/a.go", "package a\n\nvar v = T{Rule: \"Z9\"}\n", "rules/a.go:3: Z9 is neither"},
		planted{"rules/a_test.go", "package a\n\nvar v = b.rules(\"F2\", \"Z9\")\n", "rules/a_test.go:3: Z9 is neither"},
		planted{"x/a.go", "package a\n\nvar v = T{Rule: \"Z9\"}\n", ""},
	)
	law(noBareIDs).finds(t,
		planted{"a.go", "package a\n\n// f is tr:F2 (not \"F3\", x.F4, F-5, UTF16).\n", ""},
		planted{"a.go", "package a\n\n// f is F2.\n", "a.go:3: F2: put the page"},
		planted{"a.go", "package a\n\n// f follows C1-C5: all gates are open.\n", "a.go:3: C1: put the page"},
		planted{"a.go", "package a\n\n// f does (rules:\n// A3).\n", "a.go:4: A3: put the page"},
		planted{"a.go", "package a\n\n//\tF2 is quoted\n// Output:\n// F2 running\n", ""},
	)
}
