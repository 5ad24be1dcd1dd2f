package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a reader can learn about a package in a sitting. Tests and generated code do not count.
const (
	maxPackageLines = 3000
	maxPackageFiles = 25
	maxMethods      = 30 // of a concrete type
	maxRootTypes    = 60 // exported by the root package; 52 before dependencies, workflows and schedules
)

// tooLarge lists today's breaches of the limits. They cannot grow: a number
// here may fall, and goes when it is no longer needed.
var tooLarge = map[string]int{
	". lines":                          3_700, // the whole API of applications
	"internal/sqlstore/txn.Tx methods": 81,
}

// sizes measures all packages: "DIR lines", "DIR files", "DIR.Type methods" and ". types".
func sizes(files []*file) map[string]int {
	out := map[string]int{}
	for _, f := range files {
		if f.syntax == nil || f.isTest() || f.isGenerated() {
			continue
		}
		dir := f.dir()
		out[dir+" lines"] += bytes.Count(f.text, []byte("\n"))
		out[dir+" files"]++
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					out[dir+"."+name+" methods"]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && dir == "." && s.Name.IsExported() {
						out[". types"]++
					}
				}
			}
		}
	}
	return out
}

// receiver is the name of a method's type, "" of a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// oversized judges measured sizes by the limits and the tooLarge.
func oversized(size, allowed map[string]int) (found []string) {
	limits := map[string]int{"lines": maxPackageLines, "files": maxPackageFiles, "methods": maxMethods, "types": maxRootTypes}
	for _, name := range slices.Sorted(maps.Keys(size)) {
		limit, n := limits[name[strings.LastIndexByte(name, ' ')+1:]], size[name]
		most, known := allowed[name]
		switch {
		case known && n <= limit:
			found = append(found, fmt.Sprintf("%s: %d, and %d are allowed to all: delete the allowance", name, n, limit))
		case n > max(limit, most):
			found = append(found, fmt.Sprintf("%s: %d, at most %d: divide it by subject", name, n, max(limit, most)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if _, there := size[name]; !there {
			found = append(found, name+": there is no such thing: delete the allowance")
		}
	}
	return found
}

func TestSizes(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range oversized(sizes(files), tooLarge) {
		t.Error(found)
	}
}

func TestSizesArePlanted(t *testing.T) {
	for _, c := range []struct {
		size, allowed map[string]int
		want          string
	}{
		{map[string]int{"a lines": maxPackageLines, "a files": maxPackageFiles, "a.T methods": maxMethods, ". types": maxRootTypes}, nil, ""},
		{map[string]int{"a lines": maxPackageLines + 1}, nil, "a lines: 3001, at most 3000: divide it by subject"},
		{map[string]int{"a files": maxPackageFiles + 1}, nil, "a files: 26, at most 25: divide it by subject"},
		{map[string]int{"a.T methods": maxMethods + 1}, nil, "a.T methods: 31, at most 30: divide it by subject"},
		{map[string]int{". types": maxRootTypes + 1}, nil, ". types: 61, at most 60: divide it by subject"},
		{map[string]int{"a lines": 4000}, map[string]int{"a lines": 4000}, ""},
		{map[string]int{"a lines": 4001}, map[string]int{"a lines": 4000}, "a lines: 4001, at most 4000: divide it by subject"},
		{map[string]int{"a lines": 10}, map[string]int{"a lines": 4000}, "a lines: 10, and 3000 are allowed to all: delete the allowance"},
		{nil, map[string]int{"a lines": 4000}, "a lines: there is no such thing: delete the allowance"},
	} {
		if got := strings.Join(oversized(c.size, c.allowed), "; "); got != c.want {
			t.Errorf("%v with %v: %q, want %q", c.size, c.allowed, got, c.want)
		}
	}
}
