package examples_test

import (
	"flag"
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

//go:generate go test -run ^TestDefaultsAreThoseOfTheCode$ -update .

var update = flag.Bool("update", false, "write the values of docs/defaults.md")

const thisModule = "github.com/sojourn-queue/sojourn"

// packages are those whose constants docs/defaults.md names.
var packages = []string{thisModule, thisModule + "/worker", thisModule + "/internal/sqlstore", thisModule + "/store/sqlite",
	thisModule + "/store/postgres", thisModule + "/internal/bench", thisModule + "/source", thisModule + "/throttle/rule", thisModule + "/access",
	thisModule + "/driver", thisModule + "/rules", thisModule + "/throttle", thisModule + "/store/statistics",
	thisModule + "/internal/sqlstore/groupcommit", thisModule + "/internal/sqlstore/clock", thisModule + "/internal/sqlstore/txn", thisModule + "/internal/sqlstore/gate",
	thisModule + "/internal/sqlstore/enqueue", thisModule + "/internal/sqlstore/claim", thisModule + "/internal/sqlstore/query", thisModule + "/internal/sqlstore/upkeep",
	thisModule + "/source/nats", thisModule + "/source/kafka", thisModule + "/source/rabbitmq", thisModule + "/worker/execjob", thisModule + "/worker/httpjob", thisModule + "/httpapi", thisModule + "/httpapi/server", thisModule + "/httpapi/server/internal/admission"}

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
	constantName = regexp.MustCompile("^`((?:sojourn|worker|execjob|httpjob|sqlstore|groupcommit|clock|txn|gate|enqueue|claim|query|upkeep|sqlite|postgres|bench|source|rule|nats|kafka|rabbitmq|httpapi|server|admission|Backoff)\\.\\w+)`$")
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

// cell writes a value in the unit of the cell before, or in the largest other one of its sort in
// which it is a whole number.
func cell(v constant.Value, before string) string {
	if v.Kind() == constant.String {
		return "`" + constant.StringVal(v) + "`"
	}
	n, _ := constant.Int64Val(v)
	_, unit, _ := strings.Cut(before, " ")
	if n%units[unit] != 0 {
		sort := sortsOfUnits[0]
		if slices.Contains(sortsOfUnits[1], unit) {
			sort = sortsOfUnits[1]
		}
		for _, u := range sort {
			if n%units[u] == 0 {
				unit = u
				break
			}
		}
	}
	number := strconv.FormatInt(n/units[unit], 10)
	for i := len(number) - 3; i > 0 && number[i-1] != '-'; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return strings.TrimSpace(number + " " + unit)
}

// sortsOfUnits are times and bytes, the largest first.
var sortsOfUnits = [2][]string{{"years", "days", "h", "min", "s", "ms", "µs"}, {"MiB", "KiB", "bytes"}}

// corrected is a text whose tables have the values of the code.
func corrected(text string, code map[string]constant.Value) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		m := constantName.FindStringSubmatch(strings.TrimSpace(cells[len(cells)-2]))
		if m == nil || code[m[1]] == nil {
			continue
		}
		before := strings.TrimSpace(cells[2])
		if got, err := value(before); err != nil || got.Kind() != code[m[1]].Kind() || !constant.Compare(got, token.EQL, code[m[1]]) {
			cells[2] = " " + cell(code[m[1]], before) + " "
			lines[i] = strings.Join(cells, "|")
		}
	}
	return strings.Join(lines, "\n")
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

// TestDefaultsAreThoseOfTheCode compares docs/defaults.md with the constants. With -update it
// writes their values into the tables; what the rows say and their ranges are written by hand.
func TestDefaultsAreThoseOfTheCode(t *testing.T) {
	code := inCode(t)
	if len(code) < 50 {
		t.Fatalf("found only %d constants: %v", len(code), code)
	}
	text := page(t, "defaults.md")
	if *update {
		text = corrected(text, code)
		if err := os.WriteFile(filepath.Join("..", "docs", "defaults.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range disagreements(text, code) {
		t.Error("docs/defaults.md:", d)
	}
	if t.Failed() {
		t.Log("go generate ./examples writes the values of rows that name a constant")
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

func TestValuesAreCorrected(t *testing.T) {
	code := map[string]constant.Value{"sojourn.DefaultLease": constant.MakeInt64(int64(30 * time.Second)), "sojourn.DefaultQueue": constant.MakeString("default"),
		"sojourn.MaxBytes": constant.MakeInt64(256 << 10), "bench.MaxJobs": constant.MakeInt64(10_000_000)}
	row := func(value, name string) string { return "| what | " + value + " | range | `" + name + "` |\n" }
	good := row("30 s", "sojourn.DefaultLease") + row("`default`", "sojourn.DefaultQueue") + row("256 KiB", "sojourn.MaxBytes") + row("10,000,000", "bench.MaxJobs")
	for _, wrong := range []string{
		row("31 s", "sojourn.DefaultLease") + row("`other`", "sojourn.DefaultQueue") + row("1 KiB", "sojourn.MaxBytes") + row("7", "bench.MaxJobs"),
		row("1 min", "sojourn.DefaultLease") + row("5", "sojourn.DefaultQueue") + row("1 MiB", "sojourn.MaxBytes") + row("10,000,001", "bench.MaxJobs"),
		good,
	} {
		if got := corrected(wrong, code); got != good {
			t.Errorf("%s\nbecomes\n%s\nwant\n%s", wrong, got, good)
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
