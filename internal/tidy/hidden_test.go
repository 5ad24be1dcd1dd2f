package tidy

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// hiddenPackages finds variables, parameters and results that have the name of a package which
// their file imports: below them the package cannot be used, and a reader takes one for the other.
// Tests are left out.
func hiddenPackages(f *file) (found []string) {
	if f.isTest() {
		return nil
	}
	imports := map[string]bool{}
	for _, s := range f.syntax.Imports {
		name := path.Base(imported(s))
		if s.Name != nil {
			name = s.Name.Name
		} else if strings.HasPrefix(name, "v") && len(name) == 2 { // .../pgx/v5 is package pgx
			name = path.Base(path.Dir(imported(s)))
		}
		imports[name] = name != "_"
	}
	hides := func(id *ast.Ident) {
		if imports[id.Name] {
			found = append(found, f.at(id.Pos(), "%s hides the package of this name: rename it", id.Name))
		}
	}
	fields := func(l *ast.FieldList) {
		if l == nil {
			return
		}
		for _, field := range l.List {
			for _, name := range field.Names {
				hides(name)
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			fields(n.Recv)
		case *ast.FuncType:
			fields(n.Params)
			fields(n.Results)
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && n.Tok.String() == ":=" {
					hides(id)
				}
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok && n.Tok.String() == ":=" {
					hides(id)
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				hides(id)
			}
		}
		return true
	})
	return found
}

func TestHiddenPackages(t *testing.T) { obey(t, goOnly(hiddenPackages)) }

func TestHiddenPackagesArePlanted(t *testing.T) {
	const head = "package a\n\nimport (\n\t\"net/url\"\n\t_ \"os\"\n\t\"b/pgx/v5\"\n)\n\n"
	goOnly(hiddenPackages).finds(t,
		planted{"a.go", head + "func f(url string) {}\n", "a.go:9: url hides"},
		planted{"a.go", head + "func f() (url string) { return \"\" }\n", "a.go:9: url hides"},
		planted{"a.go", head + "func f() { url := 1 }\n", "a.go:9: url hides"},
		planted{"a.go", head + "func f() { for _, url := range x {\n} }\n", "a.go:9: url hides"},
		planted{"a.go", head + "func f() { var pgx int }\n", "a.go:9: pgx hides"},
		planted{"a.go", head + "func f(location string) { _ = url.Parse }\n", ""},
		planted{"a_test.go", head + "func f(url string) {}\n", ""},
	)
}
