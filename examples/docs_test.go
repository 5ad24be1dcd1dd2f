package examples_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

const thisModule = "github.com/sojourn-queue/sojourn"

// packages are those whose constants docs/defaults.md names.
var packages = []string{thisModule, thisModule + "/worker", thisModule + "/internal/sqlstore", thisModule + "/store/sqlite",
	thisModule + "/store/postgres", thisModule + "/internal/bench", thisModule + "/source", thisModule + "/throttle/rule", thisModule + "/access",
	thisModule + "/driver", thisModule + "/rules", thisModule + "/throttle",
	thisModule + "/source/nats", thisModule + "/source/kafka", thisModule + "/source/rabbitmq", thisModule + "/worker/execjob", thisModule + "/worker/httpjob", thisModule + "/httpapi", thisModule + "/httpapi/server"}

// sources imports packages of this module from their source, as far as their constants need it, and
// others from what go build has made.
type sources struct {
	set  *token.FileSet
	rest types.Importer
	seen map[string]*types.Package
}

func (s *sources) Import(p string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(p, thisModule)
	if !ours {
		return s.rest.Import(p)
	}
	if pkg := s.seen[p]; pkg != nil {
		return pkg, nil
	}
	in, err := build.Default.ImportDir(filepath.Join("..", filepath.FromSlash(dir)), 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range in.GoFiles {
		f, err := parser.ParseFile(s.set, filepath.Join(in.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	// Errors about what other modules export do not touch constants.
	c := types.Config{Importer: s, Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := c.Check(p, s.set, files, nil)
	s.seen[p] = pkg
	return pkg, nil
}

// inCode are all constants of the packages under names such as worker.DefaultGrace, and the
// defaults of Backoff.
func inCode(t *testing.T) map[string]constant.Value {
	t.Helper()
	s := &sources{set: token.NewFileSet(), rest: importer.Default(), seen: map[string]*types.Package{}}
	found := map[string]constant.Value{}
	for _, p := range packages {
		pkg, err := s.Import(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
				found[path.Base(p)+"."+name] = c.Val()
			}
		}
	}
	plain := sojourn.Backoff{Jitter: -1}
	first := plain.Delay(1, 1)
	found["Backoff.First"] = constant.MakeInt64(int64(first))
	found["Backoff.Factor"] = constant.MakeInt64(int64(plain.Delay(1, 2) / first))
	found["Backoff.Limit"] = constant.MakeInt64(int64(plain.Delay(1, 1000)))
	found["Backoff.Jitter"] = constant.MakeInt64(0)
	if (sojourn.Backoff{}).Delay(7, 3) == (sojourn.Backoff{Jitter: 1}).Delay(7, 3) {
		found["Backoff.Jitter"] = constant.MakeInt64(1)
	}
	return found
}

var (
	constantName = regexp.MustCompile("^`((?:sojourn|worker|execjob|httpjob|sqlstore|sqlite|postgres|bench|source|rule|nats|kafka|rabbitmq|httpapi|server|Backoff)\\.\\w+)`$")
	documented   = regexp.MustCompile(`^(sojourn|worker|execjob|httpjob|bench|source|nats|kafka|rabbitmq|server)\.(Default|Max)`)
	units        = map[string]int64{"": 1, "µs": int64(time.Microsecond), "ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute),
		"h": int64(time.Hour), "days": int64(24 * time.Hour), "years": int64(365 * 24 * time.Hour), "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}
)

// value reads what stands in a table: `text`, or a number with an optional unit.
func value(cell string) (constant.Value, error) {
	if text, ok := strings.CutPrefix(cell, "`"); ok {
		return constant.MakeString(strings.TrimSuffix(text, "`")), nil
	}
	number, unit, _ := strings.Cut(strings.ReplaceAll(cell, ",", ""), " ")
	n, err := strconv.ParseFloat(number, 64)
	scale, ok := units[unit]
	if err != nil || !ok {
		return nil, fmt.Errorf("%q is neither a number with a unit nor `text`", cell)
	}
	return constant.MakeInt64(int64(n * float64(scale))), nil
}

// disagreements compares the rows of a Markdown text, whose last cell names a constant and whose
// second one gives its value, with the code.
func disagreements(text string, code map[string]constant.Value) (found []string) {
	named := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		m := constantName.FindStringSubmatch(cells[len(cells)-1])
		if len(cells) < 3 || m == nil {
			continue
		}
		named[m[1]] = true
		want, ok := code[m[1]]
		got, err := value(cells[1])
		switch {
		case err != nil:
			found = append(found, fmt.Sprintf("line %d: %v", i+1, err))
		case !ok:
			found = append(found, fmt.Sprintf("line %d: there is no constant %s", i+1, m[1]))
		case got.Kind() != want.Kind() || !constant.Compare(got, token.EQL, want):
			found = append(found, fmt.Sprintf("line %d: %s is %s in the code, not %s", i+1, m[1], want, cells[1]))
		}
	}
	for name := range code {
		if (documented.MatchString(name) || strings.HasPrefix(name, "Backoff.")) && !named[name] {
			found = append(found, name+" is not in any table")
		}
	}
	slices.Sort(found)
	return found
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDefaultsAreThoseOfTheCode compares docs/defaults.md with the constants.
func TestDefaultsAreThoseOfTheCode(t *testing.T) {
	code := inCode(t)
	if len(code) < 50 {
		t.Fatalf("found only %d constants: %v", len(code), code)
	}
	for _, d := range disagreements(page(t, "defaults.md"), code) {
		t.Error("docs/defaults.md:", d)
	}
}

func TestDisagreementsArePlanted(t *testing.T) {
	code := map[string]constant.Value{"sojourn.DefaultLease": constant.MakeInt64(int64(30 * time.Second)), "sojourn.DefaultQueue": constant.MakeString("default"),
		"worker.settle": constant.MakeInt64(5), "sojourn.MaxBytes": constant.MakeInt64(256 << 10)}
	row := func(value, name string) string { return "| what | " + value + " | `" + name + "` |\n" }
	good := row("30 s", "sojourn.DefaultLease") + row("`default`", "sojourn.DefaultQueue") + row("256 KiB", "sojourn.MaxBytes")
	for text, want := range map[string]int{
		good:                                         0,
		good + row("5", "worker.settle"):             0,
		good + row("6", "worker.settle"):             1,
		good + row("5", "worker.unsettle"):           1,
		good + row("five", "worker.settle"):          1,
		strings.Replace(good, "30 s", "30 min", 1):   1,
		strings.Replace(good, "256", "255", 1):       1,
		strings.Replace(good, "`default`", "`d`", 1): 1,
		row("30 s", "sojourn.DefaultLease"):          2,
	} {
		if got := disagreements(text, code); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}

// TestGuaranteesListTheChecks: docs/guarantees.md names exactly the checks that sojourn doctor
// runs, in their order (spec:A18).
func TestGuaranteesListTheChecks(t *testing.T) {
	c, err := sqlite.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(page(t, "guarantees.md"), -1) {
		listed = append(listed, m[1])
	}
	checks := c.Store().(driver.Checker).Checks()
	for _, name := range checks {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/guarantees.md does not list the check %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(checks, name) {
			t.Errorf("docs/guarantees.md lists %s, which is no check", name)
		}
	}
	if !t.Failed() && !slices.Equal(listed, checks) {
		t.Errorf("docs/guarantees.md lists the checks in the order\n%v, doctor runs them in\n%v", listed, checks)
	}
}
