package tidy

import (
	"go/ast"
	"slices"
	"strconv"
	"testing"
)

// allowance lets the files that the pattern covers use a source of time or chance. All else is
// handed in, so that a test can drive it and a run can be repeated.
type allowance struct {
	files   string // as in the table direction, of a file or a directory
	names   []string
	because string
}

var allowances = []allowance{
	{"sojourn.go", []string{"crypto/rand"}, "message ids of responses that came without one must not repeat over processes"},
	{"worker/...", []string{"time.Now", "time.Since", "time.Until"}, "monotonic margins of a lease, measured where it is held"},
	{"worker/...", []string{"crypto/rand"}, "the name of a worker is new with every start, as it is part of the fence"},
	{"worker/...", []string{"math/rand/v2"}, "the order Shuffled, drawn from the worker's random name"},
	{"store/sqlite/...", []string{"time.Now", "time.Since", "time.Until", "crypto/rand"}, "the store's clock; the name of an instance, its secret"},
	{"store/postgres/postgres.go", []string{"time.Now"}, "this machine's clock, which the store compares with the database's"},
	{"store/postgres/link.go", []string{"time.Now", "time.Since"}, "how long a message has been under way, on the monotonic clock"},
	{"store/postgres/notify.go", []string{"time.Now", "time.Since"}, "pauses between messages of one connection"},
	{"store/postgres/internal/owner/...", []string{"time.Now", "crypto/rand"}, "how long a lock is missing, on the monotonic clock; the id of a process and the keys of its locks"},
	{"store/postgres/migrate.go", []string{"time.Now"}, "when a migration ran, for people"},
	{"internal/sqlstore/clock/clock.go", []string{"time.Now", "time.Since", "time.Until"}, "the store's clock"},
	{"internal/sqlstore/claim/patterns.go", []string{"math/rand/v2"}, "the order of the queues of a pattern, drawn from the worker's id and the number of its claim"},
	{"internal/sqlstore/gate/throttle.go", []string{"time.Now", "time.Since"}, "the time budget of throttlers, which are code of users"},
	{"internal/sqlstore/groupcommit/lane.go", []string{"time.Now", "time.Since"}, "how long a transaction took: the batching delay of the next one is a part of that"},
	{"internal/sqlstore/vacuum/vacuum.go", []string{"time.Now", "time.Since"}, "how long a vacuum took: the next one waits a multiple of that"},
	{"store/archive/export/export.go", []string{"crypto/rand", "time.Now", "time.Since"}, "the name of a runner; when its lease was extended, by the runner's own time"},
	{"store/archive/export/files.go", []string{"time.Now"}, "the day of a file, on the machine that writes it"},
	{"store/archive/export/webhook.go", []string{"time.Now"}, "the time that is signed"},
	{"httpapi/askpage/...", []string{"time.Now", "crypto/rand"}, "the time that a form may take; the nonce of a style sheet"},
	{"store/operation/operation.go", []string{"crypto/rand"}, "the id of an operation that its caller has not named"},
	{"cmd/sojourn/internal/tailcmd/tailcmd.go", []string{"crypto/rand"}, "the name of a follower that lasts as long as the command"},
	{"internal/sqlstore/operation/operation.go", []string{"crypto/rand"}, "the name of a process in the leases of operations"},
	{"internal/sqlstore/store.go", []string{"crypto/rand"}, "the name of an instance and the secret of its tokens, drawn once"},
	{"internal/migration/migrationtest/...", []string{"math/rand/v2"}, "the moment at which a process of a test dies"},
	{"internal/sqlstore/cachetest/...", []string{"time.Since"}, "a test compares the times of a store with the machine's clock"},
	{"store/storetest/internal/races/...", []string{"math/rand/v2"}, "random calls of a test, by a seed"},
	{"store/storetest/storetest.go", []string{"math/rand/v2"}, "the share of the cases that a run takes, which it logs"},
	{"store/storetest/races.go", []string{"time.Now", "time.Since", "math/rand/v2"}, "the seed of a test, and how long it took"},
	{"store/storetest/depscale.go", []string{"time.Now", "time.Since"}, "a stopwatch"},
	{"internal/sqlstore/ticktest/...", []string{"time.Now", "math/rand/v2"}, "random schedules of a test, by a seed that it prints"},
	{"internal/sqlstore/clocktest/...", []string{"math/rand/v2"}, "random schedules of a test, by a seed"},
	{"internal/demo/...", []string{"time.Now", "time.Since", "time.Until", "math/rand/v2"}, "the other side: a gateway with its own clock and moods"},
	{"internal/bench/...", []string{"time.Now", "time.Since"}, "a stopwatch"},
	{"bench/...", []string{"time.Now", "time.Since"}, "a stopwatch, and the times that statements of the raw limit write"},
	{"source/webhook/...", []string{"time.Now", "crypto/rand"}, "the age of signatures, the time a body may take; ids of messages whose sender gives none"},
	{"httpapi/server/...", []string{"time.Now", "time.Since", "crypto/rand"}, "deadlines of connections, the age of what is remembered, the ends and secrets of tokens"},
	{"httpapi/ui/...", []string{"time.Now", "time.Since", "time.Until", "crypto/rand"}, "ages on a page, the ends of sessions; the secrets of sessions and forms"},
	{"internal/connlimit/...", []string{"time.Now"}, "deadlines of connections"},
	{"cmd/...", []string{"time.Now", "time.Since", "time.Until"}, "ages on a screen, the length of a run"},
	{"examples/...", []string{"time.Now", "time.Since", "time.Until", "math/rand/v2"}, "programs of users"},
}

var (
	clockCalls  = []string{"Now", "Since", "Until"}
	randomPaths = []string{"math/rand", "math/rand/v2", "crypto/rand"}
)

// clockAndChance finds uses of time and chance without an allowance. Tests are free.
func clockAndChance(f *file) (found []string) {
	if f.isTest() {
		return nil
	}
	check := func(n ast.Node, name string) {
		allowed := slices.ContainsFunc(allowances, func(a allowance) bool {
			return covers(a.files, f.path) && slices.Contains(a.names, name)
		})
		if !allowed {
			found = append(found, f.at(n.Pos(), "%s: take it from the store's clock or a parameter, or add an allowance with its reason", name))
		}
	}
	clock := ""
	for _, s := range f.syntax.Imports {
		p := imported(s)
		if slices.Contains(randomPaths, p) {
			check(s, p)
		}
		if p == "time" {
			clock = "time"
			if s.Name != nil {
				clock = s.Name.Name
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && clock != "" && slices.Contains(clockCalls, s.Sel.Name) {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == clock {
				check(s, "time."+s.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestClockAndChance(t *testing.T) { obey(t, ownModule(t, clockAndChance)) }

func TestAllowancesHaveReasons(t *testing.T) {
	for _, a := range allowances {
		if len(a.because) < 10 {
			t.Errorf("the allowance of %s has no reason", strconv.Quote(a.files))
		}
	}
}

func TestClockAndChanceArePlanted(t *testing.T) {
	now := "package a\n\nimport \"time\"\n\nvar t = time.Now()\n"
	law(clockAndChance).finds(t,
		planted{"decide.go", now, "decide.go:5: time.Now"},
		planted{"decide.go", "package a\n\nimport \"time\"\n\nvar t = time.Now\n", "decide.go:5: time.Now"},
		planted{"decide.go", "package a\n\nimport c \"time\"\n\nvar t = c.Since(x)\n", "decide.go:5: time.Since"},
		planted{"decide.go", "package a\n\nimport \"math/rand/v2\"\n\nvar t = rand.Int()\n", "decide.go:3: math/rand/v2"},
		planted{"decide.go", "package a\n\nimport \"crypto/rand\"\n\nvar t = rand.Text()\n", "decide.go:3: crypto/rand"},
		planted{"decide.go", "package a\n\nimport \"time\"\n\nvar t = time.Second\n", ""},
		planted{"decide.go", "package a\n\nvar t = time.Now() // another time\n", ""},
		planted{"decide_test.go", now, ""},
		planted{"sojourn.go", "package a\n\nimport \"crypto/rand\"\n\nvar t = rand.Text()\n", ""},
		planted{"sojourn.go", now, "sojourn.go:5: time.Now"},
		planted{"worker/lease.go", now, ""},
		planted{"internal/sqlstore/clock/clock.go", now, ""},
		planted{"internal/sqlstore/claim/claim.go", now, "internal/sqlstore/claim/claim.go:5: time.Now"},
	)
}
