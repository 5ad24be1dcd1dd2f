package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sojourn-queue/sojourn"

// row says what the packages of a directory may import besides the standard library, and what of
// that they may not. A pattern that ends in "/..." covers the directory and everything below. A
// name with a dot in its first part is another module; all others are directories of this one, "."
// the root.
type row struct {
	dir     string
	may     []string
	not     []string // standard packages, with all below
	because string
}

// direction is read from the bottom of the house to its top. The first row that covers a directory
// counts.
var direction = []row{
	{dir: "internal/calendar", because: "pure arithmetic"},
	{dir: "internal/cron/crontest", because: "an oracle knows nothing of what it judges"},
	{dir: "internal/cron", may: []string{"internal/calendar"}, not: []string{"net", "os", "database"}, because: "pure arithmetic"},
	{dir: "internal/mediatype", because: "pure syntax"},
	{dir: "internal/glob", because: "pure syntax"},
	{dir: "internal/tracecontext", because: "pure syntax"},
	{dir: "internal/version", not: []string{"net", "os", "database"}, because: "a number, below all that shows it"},
	{dir: "internal/fingerprint", because: "pure text"},
	{dir: "internal/jsonfield", not: []string{"net", "os", "database"}, because: "pure text"},
	{dir: "docs", not: []string{"net", "os", "database"}, because: "files, and nothing that reads them"},
	{dir: "internal/docsite", may: []string{"docs", "github.com/yuin/goldmark/..."}, not: []string{"database"}, because: "it knows pages, and nothing of jobs"},
	{dir: "internal/inside", may: []string{"internal/calendar"}, because: "it lies below the root"},
	{dir: "internal/layers", because: "it combines values of any type"},
	{dir: "throttle", may: []string{"."}, not: []string{"net", "os", "database"}, because: "throttlers in Go, and what they see"},
	{dir: "rules", may: []string{".", "throttle", "internal/inside", "internal/calendar", "internal/jsonfield"}, not: []string{"net", "os", "database", "syscall", "io/fs"},
		because: "the rules are pure: no clock, no input, no output"},
	{dir: "access", may: []string{".", "internal/inside", "internal/glob"}, not: []string{"net", "os", "database"}, because: "values and checks of tokens"},
	{dir: "schedule", may: []string{".", "internal/calendar", "internal/cron"}, not: []string{"net", "os", "database"}, because: "definitions and pure rules"},
	{dir: "workflow", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/failure", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/statistics", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/tags", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/filter", may: []string{".", "internal/jsonfield"}, not: []string{"net", "os", "database"}, because: "text to filters, without I/O"},
	{dir: "store/workers", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/config", may: []string{".", "store/statistics"}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/joblog", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/event", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/archive", may: []string{"."}, not: []string{"net/http", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/ask", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/retry", may: []string{".", "rules", "store/failure"}, not: []string{"net", "os", "database"}, because: "reads and pure rules"},
	{dir: "store/operation", may: []string{"."}, not: []string{"net", "os", "database"}, because: "definitions and pure checks"},
	{dir: "store/migrate", may: []string{"."}, because: "the versions of a store's tables"},
	{dir: "driver", may: []string{".", "internal/inside", "internal/glob"}, not: []string{"net", "os", "database"}, because: "what a store offers to a worker"},
	{dir: ".", may: []string{"internal/calendar", "internal/cron", "internal/inside", "internal/layers", "internal/mediatype", "internal/tracecontext"}, not: []string{"net", "os", "database", "syscall", "io/fs"},
		because: "the domain does no input or output"},
	{dir: "worker/execjob", may: []string{"domain", "internal/jsonform"}, not: []string{"net", "database"}, because: "it runs programs, for any worker"},
	{dir: "internal/webhooksign", not: []string{"os", "database"}, because: "it signs any request"},
	{dir: "store/archive/export", may: []string{"domain", "internal/jsonform", "internal/webhooksign", "golang.org/x/sys/..."}, not: []string{"database"},
		because: "it moves jobs from any store to files and webhooks"},
	{dir: "worker/httpjob", may: []string{"domain", "internal/jsonform", "internal/webhooksign"}, not: []string{"database"}, because: "it sends requests, for any worker"},
	{dir: "worker/metrics", may: []string{"domain", "worker", "source", "github.com/prometheus/client_golang/..."}, not: []string{"net", "database"},
		because: "it observes workers and sources, and serves nothing"},
	{dir: "worker/otelsojourn", may: []string{"domain", "worker", "go.opentelemetry.io/otel/..."}, not: []string{"net", "database"}, because: "a module of its own, so that only programs that trace link OpenTelemetry"},
	{dir: "worker/...", may: []string{"domain"}, not: []string{"net", "database"}, because: "a worker knows a Claimer, neither SQL nor HTTP"},
	{dir: "throttle/rule/...", may: []string{"domain", "source", "cel.dev/..."}, not: []string{"net", "database"}, because: "only programs that use rules link CEL"},
	{dir: "internal/sqldb", not: []string{"net", "os"}, because: "the seam between the engine and a database knows neither jobs nor drivers"},
	{dir: "internal/callcost", may: []string{"domain"}, not: []string{"net", "os", "database"}, because: "it measures any store that it is given"},
	{dir: "internal/migration/migrationtest", may: []string{"domain", "internal/proctest", "internal/sqldb"}, because: "it kills processes in the middle of migrations"},
	{dir: "internal/migration", may: []string{"domain", "internal/sqldb"}, not: []string{"net", "os"}, because: "schema versions, on any database"},
	{dir: "internal/sqlstore/groupcommit", may: []string{"."}, not: []string{"net", "os", "database"}, because: "it knows no database"},
	{dir: "internal/sqlstore/nearkey", because: "pure text"},
	{dir: "internal/sqlstore/clock", not: []string{"net", "os", "database"}, because: "it knows no database"},
	{dir: "internal/sqlstore/ticktest", may: []string{"domain", "internal/calendar", "internal/cron/crontest", "internal/proctest"}, not: []string{"net", "database"},
		because: "it tests the ticks of any store, with processes"},
	{dir: "internal/sqlstore/failure", may: []string{"domain", "internal/fingerprint", "internal/sqldb", "internal/sqlstore/..."}, not: []string{"net", "os"},
		because: "one SQL store, which knows no driver"},
	{dir: "internal/sqlstore/...", may: []string{"domain", "internal/sqldb", "internal/migration", "internal/sqlstore/..."}, not: []string{"net/http"},
		because: "one SQL store, which knows no driver"},
	{dir: "store/sqlite/internal/filesys", may: []string{"golang.org/x/sys/..."}, not: []string{"net", "database"}, because: "it knows files, and no database"},
	{dir: "store/sqlite/internal/owner", may: []string{"store/sqlite/internal/filesys"}, not: []string{"net", "database"},
		because: "locks of files show which processes live, without SQLite"},
	{dir: "store/sqlite/...", may: []string{"domain", "internal/sqldb", "internal/migration", "internal/sqlstore/...", "store/sqlite/...", "zombiezen.com/go/sqlite/...", "modernc.org/...", "golang.org/x/sys/..."},
		not: []string{"net/http"}, because: "one package for one database"},
	{dir: "store/postgres/...", may: []string{"domain", "internal/sqldb", "internal/migration", "internal/sqlstore/...", "store/postgres/...", "github.com/jackc/pgx/v5/..."},
		not: []string{"net/http"}, because: "one package for one database"},
	{dir: "store/storetest/internal/stats", may: []string{"domain", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/events", may: []string{"domain", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/search", may: []string{"domain", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/archives", may: []string{"domain", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/asks", may: []string{"domain", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/triage", may: []string{"domain", "internal/fingerprint", "store/storetest/internal/kit"}, because: "cases of one subject know those of no other"},
	{dir: "store/storetest/internal/model", may: []string{"domain"}, because: "it predicts a store and knows none"},
	{dir: "store/storetest/internal/sim", may: []string{"domain", "store/storetest/internal/model", "store/storetest/internal/faulty"}, because: "it compares any store with the model"},
	{dir: "store/storetest/internal/...", may: []string{"domain", "store/storetest/internal/kit", "store/storetest/internal/faulty", "pgregory.net/rapid"},
		because: "cases of one subject know those of no other"},
	{dir: "store/storetest/...", may: []string{"domain", "store/storetest/...", "github.com/google/go-cmp/...", "pgregory.net/rapid"},
		because: "it tests any Store, so it knows none"},
	{dir: "store", may: []string{"domain", "store/...", "httpapi"}, because: "it opens a store by its URL"},
	{dir: "sojourntest/...", may: []string{"domain", "worker", "store/sqlite"}, because: "users' tests run on SQLite in memory"},
	{dir: "internal/jsonform", may: []string{"domain", "github.com/go-json-experiment/json/..."}, not: []string{"net", "os", "database"},
		because: "the form of JSON that the HTTP API and the command share"},
	{dir: "httpapi/server/internal/admission", may: []string{"httpapi/internal/wire"}, not: []string{"net", "os", "database"},
		because: "it decides which requests run, and reads none of them"},
	{dir: "httpapi/server/...", may: []string{"domain", "httpapi/internal/...", "httpapi/server/internal/...", "internal/connlimit", "internal/jsonform", "internal/version", "github.com/danielgtaylor/huma/v2", "github.com/prometheus/client_golang/..."},
		not: []string{"database"}, because: "HTTP speaks to a Store, not to SQL"},
	{dir: "httpapi/ui/...", may: []string{"domain", "httpapi", "httpapi/internal/wire", "httpapi/ui/internal/..."}, not: []string{"database"}, because: "pages over a Client, which may be one of the HTTP API"},
	{dir: "httpapi/askpage", may: []string{"domain", "internal/connlimit"}, not: []string{"os", "database"}, because: "a page over a Client, which may be one of the HTTP API"},
	{dir: "httpapi/...", may: []string{"domain", "httpapi/internal/...", "internal/jsonform", "github.com/go-json-experiment/json/..."}, not: []string{"database"},
		because: "a client of a server links neither a database nor the server"},
	{dir: "source", may: []string{"domain"}, not: []string{"net", "database"}, because: "the loop of all sources knows no broker"},
	{dir: "source/sourcefile", may: []string{"domain", "source/...", "throttle/rule", "github.com/pelletier/go-toml/v2/...", "github.com/twmb/franz-go/..."}, not: []string{"database"},
		because: "it opens any source that a file names"},
	{dir: "source/webhook", may: []string{"domain", "source", "internal/connlimit"}, not: []string{"database"}, because: "its senders speak HTTP"},
	{dir: "source/...", may: []string{"domain", "source/...", "*"}, not: []string{"database"}, because: "a source brings its broker's client"},
	{dir: "internal/demo/brokers", may: []string{"internal/demo", "source/...", "source", "github.com/nats-io/...", "github.com/twmb/franz-go/..."}, not: []string{"database"},
		because: "it starts the brokers of the demo, and no other package does"},
	{dir: "internal/demo/...", may: []string{"domain", "worker", "source", "internal/demo/..."}, not: []string{"database"},
		because: "the demo runs on any store, and over any broker, that it is given"},
	{dir: "internal/bench/...", may: []string{"domain", "worker", "internal/bench/..."}, not: []string{"database", "net"},
		because: "it measures any store that it is given"},
	{dir: "internal/proctest", because: "any test may run a program"},
	{dir: "internal/pgtest", may: []string{"internal/proctest", "github.com/jackc/pgx/v5/..."}, because: "it starts servers for tests"},
	{dir: "internal/brokertest", may: []string{"internal/proctest", "internal/pgtest", "*"}, because: "it starts servers for tests"},
	{dir: "internal/sdkbuild", because: "it runs a compiler for tests"},
	{dir: "internal/connlimit", not: []string{"database"}, because: "it limits any HTTP server"},
	{dir: "internal/slowclients", because: "it is the other side in tests of servers"},
	{dir: "internal/crash", because: "only its tests run processes"},
	{dir: "internal/outage", because: "only its tests run processes"},
	{dir: "internal/overload", because: "only its tests run processes"},
	{dir: "internal/tidy", because: "the laws depend on nothing they judge"},
	{dir: "examples/...", may: []string{"domain", "worker", "worker/metrics", "store/...", "sojourntest", "throttle/rule/...", "httpapi/...", "source/...", "examples/...", "github.com/prometheus/client_golang/...", "modernc.org/sqlite", "github.com/nats-io/nats.go/...", "github.com/twmb/franz-go/pkg/kgo", "github.com/rabbitmq/amqp091-go"},
		because: "an example shows what a user may do, so nothing internal"},
	{dir: "bench/...", may: []string{"domain", "bench/...", "internal/bench", "internal/pgtest", "store/...", "httpapi/...", "*"}, because: "a module of its own measures the stores beside others"},
	{dir: "cmd/sojourn/internal/terminal", because: "pure text"},
	{dir: "cmd/sojourn/internal/parse", may: []string{"domain", "cmd/sojourn/internal/terminal"}, not: []string{"net", "os", "database"},
		because: "it reads the values of flags"},
	{dir: "cmd/sojourn/internal/cli", may: []string{"domain", "throttle/rule", "store", "internal/jsonform", "cmd/sojourn/internal/terminal", "github.com/spf13/..."}, not: []string{"net", "database"},
		because: "it is below all commands and knows none"},
	{dir: "cmd/sojourn/internal/...", may: []string{"./...", "*"}, not: []string{"database"}, because: "the commands, a package for each noun"},
	{dir: "cmd/sojourn", may: []string{"cmd/sojourn/internal/...", "github.com/spf13/..."}, not: []string{"net", "database"}, because: "it only puts the commands together"},
}

// testOnly are modules that tests may link and programs may not.
var testOnly = []string{
	"github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/anishathalye/porcupine",
	"github.com/rogpeppe/go-internal", "github.com/adhocore/gronx", "github.com/nats-io/nats-server", "github.com/twmb/franz-go/pkg/kfake",
	"github.com/standard-webhooks/standard-webhooks",
}

// demoServers are those of them that the command links for its demo if it is built with the tag
// brokers.
var demoServers = []string{"github.com/nats-io/nats-server", "github.com/twmb/franz-go/pkg/kfake"}

// domain are the packages that every other one may know: jobs, and the values and rules about them.
var domain = []string{".", "rules", "driver", "access", "throttle", "schedule", "workflow", "store/failure", "store/operation", "store/statistics", "store/tags", "store/event", "store/filter", "store/migrate", "internal/layers", "internal/jsonfield", "store/archive", "store/retry", "store/workers", "store/joblog", "store/config", "store/ask"}

// covers reports whether a pattern of the table names p, a directory of this module or an import
// path of another.
func covers(pattern, p string) bool {
	other := otherModule(p)
	switch below, tree := strings.CutSuffix(pattern, "/..."); {
	case pattern == "*":
		return other
	case pattern == "domain":
		return slices.Contains(domain, p)
	case pattern == "./...":
		return !other
	case tree:
		return p == below || strings.HasPrefix(p, below+"/")
	}
	return p == pattern
}

func otherModule(p string) bool {
	first, _, below := strings.Cut(p, "/")
	return below && strings.Contains(first, ".") && first != "."
}

// within turns an import path of this module into a directory.
func within(importPath string) (dir string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func imported(s *ast.ImportSpec) string {
	p, _ := strconv.Unquote(s.Path.Value)
	return p
}

// importDirection judges the imports of everything but tests.
func importDirection(f *file) (found []string) {
	if f.isTest() {
		return nil
	}
	i := slices.IndexFunc(direction, func(r row) bool { return covers(r.dir, f.dir()) })
	if i < 0 {
		return []string{f.at(f.syntax.Package, "no line of the table direction covers %s: say there what it may import", f.dir())}
	}
	r := direction[i]
	for _, s := range f.syntax.Imports {
		p := imported(s)
		dir, ours := within(p)
		switch {
		case ours || otherModule(p):
			if !ours {
				dir = p
			}
			if !slices.ContainsFunc(r.may, func(m string) bool { return covers(m, dir) }) {
				found = append(found, f.at(s.Pos(), "%s may not import %s: %s", f.dir(), p, r.because))
			}
		case slices.ContainsFunc(r.not, func(n string) bool { return covers(n+"/...", p) }):
			found = append(found, f.at(s.Pos(), "%s may not import %s: %s", f.dir(), p, r.because))
		}
	}
	return found
}

// testModules keeps what only tests need out of users' programs. These packages are themselves for
// tests.
func testModules(f *file) (found []string) {
	if f.isTest() || covers("store/storetest/...", f.dir()) ||
		slices.Contains([]string{"source/sourcetest", "internal/proctest", "internal/pgtest", "internal/brokertest", "internal/sqlstore/gatedtest", "internal/sqlstore/clocktest", "internal/sqlstore/ticktest", "internal/sqlstore/waketest",
			"internal/sqlstore/checktest", "internal/sqlstore/cachetest"}, f.dir()) {
		return nil
	}
	for _, s := range f.syntax.Imports {
		for _, m := range append(testOnly, "testing") {
			shown := f.dir() == "internal/demo/brokers" && slices.Contains(demoServers, m)
			if covers(m+"/...", imported(s)) && !shown && !(m == "testing" && covers("sojourntest/...", f.dir())) {
				found = append(found, f.at(s.Pos(), "%s is for tests only", imported(s)))
			}
		}
	}
	return found
}

// A program that imports the root package, worker and store/sqlite is the smallest useful one. One
// that chooses between both databases at run time links store/postgres too.
// maxModules is the number of indirect modules in the go.mod of the user who writes it.
const (
	maxModules     = 11
	maxWithAnother = 20
)

// unlinked are packages that it must not carry: servers, brokers, other databases, rules, command
// lines.
var unlinked = []string{
	"net/http", "net/rpc", "net/smtp", "html/template", "testing",
	"github.com/jackc", "github.com/lib/pq", "github.com/mattn/go-sqlite3", "github.com/twmb", "github.com/nats-io", "github.com/rabbitmq",
	"github.com/danielgtaylor", "github.com/spf13", "github.com/prometheus", "go.opentelemetry.io", "google.golang.org", "connectrpc.com", "cel.dev",
}

// modulesOf counts the other modules in the lines "import-path module" of everything that a program
// links.
func modulesOf(linked []string) map[string]bool {
	modules := map[string]bool{}
	for _, line := range linked {
		if _, m, _ := strings.Cut(strings.TrimSpace(line), " "); m != "" && m != module {
			modules[m] = true
		}
	}
	return modules
}

// overBudget judges what the smallest program links.
func overBudget(linked []string) (found []string) {
	for _, line := range linked {
		p, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, u := range append(unlinked, testOnly...) {
			if covers(u+"/...", p) {
				found = append(found, "go.mod:1: root, worker and store/sqlite link "+p+": move what needs it to a package of its own")
			}
		}
	}
	if modules := modulesOf(linked); len(modules) > maxModules {
		found = append(found, fmt.Sprintf("go.mod:1: root, worker and store/sqlite link %d modules, at most %d: %v", len(modules), maxModules, modules))
	}
	return found
}

func TestImportDirection(t *testing.T) { obey(t, ownModule(t, importDirection)) }

func TestTestModulesStayInTests(t *testing.T) { obey(t, ownModule(t, testModules)) }

// ownModule restricts a law to the Go files of this module, generated ones included.
func ownModule(t *testing.T, l law) law {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	ours := dirs(files)
	return func(f *file) []string {
		if f.syntax == nil || ours[f.dir()] == nil {
			return nil
		}
		return l(f)
	}
}

func TestLinkedModules(t *testing.T) {
	for _, found := range overBudget(linkedBy(t, "worker", "store/sqlite", "source")) { // the loop of sources links no broker
		t.Error(found)
	}
	var all []string // go mod tidy lists what any platform links
	for _, platform := range []string{"linux/amd64", "darwin/arm64", "windows/amd64", "freebsd/amd64"} {
		system, processor, _ := strings.Cut(platform, "/")
		t.Setenv("GOOS", system)
		t.Setenv("GOARCH", processor)
		all = append(all, linkedBy(t, "worker", "store/sqlite")...)
	}
	for _, found := range overBudget(all) {
		t.Error(found)
	}
	t.Setenv("GOOS", "")
	t.Setenv("GOARCH", "")
	if modules := modulesOf(linkedBy(t, "worker", "store/sqlite", "store/postgres")); len(modules) > maxWithAnother {
		t.Errorf("go.mod:1: root, worker and both databases link %d modules, at most %d: %v", len(modules), maxWithAnother, modules)
	}
}

// TestCommandLinksNoServers: only a build with the tag brokers links the servers of the demo. They
// are a sixth of the time of the first build.
func TestCommandLinksNoServers(t *testing.T) {
	for _, line := range linkedBy(t, "cmd/sojourn") {
		p, _, _ := strings.Cut(line, " ")
		if slices.ContainsFunc(testOnly, func(m string) bool { return covers(m+"/...", p) }) {
			t.Errorf("cmd/sojourn links %s without the tag brokers", p)
		}
	}
}

// clients are the libraries of brokers, and the source that may link each.
var clients = map[string]string{"github.com/nats-io": "source/nats", "github.com/twmb": "source/kafka", "github.com/rabbitmq": "source/rabbitmq"}

// TestSourcesLinkTheirBroker: whoever uses one broker links no other, and no rules.
func TestSourcesLinkTheirBroker(t *testing.T) {
	for _, dir := range clients {
		for _, line := range linkedBy(t, dir) {
			p, _, _ := strings.Cut(line, " ")
			for library, of := range clients {
				if of != dir && covers(library+"/...", p) {
					t.Errorf("%s links %s", dir, p)
				}
			}
			if covers("cel.dev/...", p) || slices.ContainsFunc(testOnly, func(m string) bool { return covers(m+"/...", p) }) {
				t.Errorf("%s links %s", dir, p)
			}
		}
	}
}

// linkedBy lists what the root package and these directories link.
func linkedBy(t *testing.T, packages ...string) []string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", "."}
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range packages {
		if dirs(files)[dir] != nil {
			args = append(args, "./"+dir)
		}
	}
	var text, errors bytes.Buffer
	list := exec.Command("go", args...)
	list.Dir, list.Stdout, list.Stderr = root, &text, &errors
	if err := list.Run(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, errors.String())
	}
	linked := strings.Split(strings.TrimSpace(text.String()), "\n")
	if !slices.Contains(linked, module+" "+module) {
		t.Fatalf("go list does not name the root package: %q", linked)
	}
	return linked
}

func TestImportsArePlanted(t *testing.T) {
	imports := func(at, p string) planted {
		return planted{at, "package a\n\nimport _ \"" + p + "\"\n", ""}
	}
	breach := func(at, p string) planted {
		q := imports(at, p)
		q.want = at + ":3: "
		return q
	}
	law(importDirection).finds(t,
		imports("a.go", "time"), imports("a.go", module+"/internal/calendar"), breach("a.go", "os"), breach("a.go", "net/http"),
		breach("a.go", module+"/worker"), breach("a.go", "zombiezen.com/go/sqlite"), imports("a_test.go", module+"/worker"),
		imports("worker/a.go", module), breach("worker/a.go", "database/sql"), breach("worker/a.go", "net/http"), breach("worker/a.go", module+"/internal/sqlstore"),
		imports("internal/sqlstore/a.go", module), breach("internal/sqlstore/a.go", "zombiezen.com/go/sqlite"),
		imports("store/sqlite/a.go", "zombiezen.com/go/sqlite/sqlitex"), imports("store/sqlite/a.go", module+"/internal/sqlstore"),
		breach("store/sqlite/a.go", module+"/store"), breach("store/sqlite/a.go", "github.com/jackc/pgx/v5"),
		imports("store/a.go", module+"/store/sqlite"), breach("store/a.go", module+"/worker"),
		imports("store/storetest/a.go", "github.com/google/go-cmp/cmp"), breach("store/storetest/a.go", module+"/store/sqlite"),
		breach("internal/demo/a.go", module+"/store/sqlite"), imports("internal/demo/a.go", "net/http"),
		breach("examples/a/a.go", module+"/internal/sqlstore"), imports("examples/a/a.go", module+"/store/sqlite"),
		imports("cmd/sojourn/internal/democmd/a.go", module+"/internal/demo"), imports("cmd/sojourn/a.go", "github.com/spf13/cobra"),
		breach("cmd/sojourn/a.go", module+"/store"), imports("cmd/sojourn/a.go", module+"/cmd/sojourn/internal/jobcmd"),
		breach("cmd/sojourn/internal/cli/a.go", module+"/cmd/sojourn/internal/jobcmd"), breach("cmd/sojourn/internal/terminal/a.go", module),
		planted{"elsewhere/a.go", "package a\n", "elsewhere/a.go:1: no line of the table"},
	)
	law(testModules).finds(t,
		breach("cmd/sojourn/a.go", "github.com/google/go-cmp/cmp"), imports("cmd/sojourn/a_test.go", "github.com/google/go-cmp/cmp"),
		imports("internal/demo/brokers/a.go", "github.com/twmb/franz-go/pkg/kfake"), breach("internal/demo/a.go", "github.com/twmb/franz-go/pkg/kfake"),
		breach("internal/demo/brokers/a.go", "github.com/google/go-cmp/cmp"), breach("cmd/sojourn/a.go", "github.com/nats-io/nats-server/v2/server"),
		imports("store/storetest/a.go", "github.com/google/go-cmp/cmp"), breach("worker/a.go", "testing"), imports("sojourntest/a.go", "testing"),
	)
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("example.com/%d/p example.com/%d", i, i))
	}
	for want, linked := range map[int][]string{0: many[:11], 1: many, 2: {"net/http ", "github.com/jackc/pgx/v5 github.com/jackc/pgx/v5", "net "}} {
		if got := overBudget(linked); len(got) != want {
			t.Errorf("%v: found %q, want %d", linked, got, want)
		}
	}
}
