package tidy

import (
	"slices"
	"strings"
	"testing"
)

const engineDir = "internal/sqlstore/"

// engine are the packages of the SQL store, from the lowest to the highest. Each may import only
// those before it; the package above them all, internal/sqlstore, connects them. So a reader can
// stop at any package, and needs nothing of those after it.
var engine = []string{
	"groupcommit", "vacuum", "nearkey", "clock", "jobrow", "jobcount", "jobstat", "jobevent", "without", "presence", "txn", "storeconfig", "tag", "field", "wake", "errordetail", "checkpointsize", "joblog", "failure", "lifecycle", "edge", "jobview", "question", "gate",
	"counters", "statistics", "enqueue", "member", "finish", "respond", "claim", "schedules", "query", "upkeep", "events", "archives", "operate", "workflows", "operation", "deregister",
}

// engineTests are packages that only tests use.
var engineTests = []string{"cachetest", "checktest", "clocktest", "gatedtest", "ticktest", "waketest"}

// engineOrder finds imports against the order, and packages without a place in it.
func engineOrder(f *file) (found []string) {
	own, ok := strings.CutPrefix(f.dir(), engineDir)
	if !ok || f.isTest() || slices.Contains(engineTests, own) {
		return nil
	}
	place := slices.Index(engine, own)
	if place < 0 {
		return []string{f.at(f.syntax.Package, "the list engine has no place for %s: say there what is below it", own)}
	}
	for _, s := range f.syntax.Imports {
		dir, _ := within(imported(s))
		other, ok := strings.CutPrefix(dir, engineDir)
		if dir == strings.TrimSuffix(engineDir, "/") || ok && slices.Index(engine[:place], other) < 0 {
			found = append(found, f.at(s.Pos(), "%s may not import %s: only packages before it in the list engine", own, dir))
		}
	}
	return found
}

func TestEngineOrder(t *testing.T) { obey(t, engineOrder) }

func TestEngineOrderIsPlanted(t *testing.T) {
	imports := func(at, p, want string) planted {
		return planted{engineDir + at, "package a\n\nimport _ \"" + module + "/" + p + "\"\n", want}
	}
	law(engineOrder).finds(t,
		imports("claim/a.go", engineDir+"txn", ""),
		imports("claim/a.go", "driver", ""),
		imports("a.go", engineDir+"operate", ""),
		imports("txn/a_test.go", engineDir+"claim", ""),
		imports("checktest/a.go", strings.TrimSuffix(engineDir, "/"), ""),
		imports("txn/a.go", engineDir+"claim", engineDir+"txn/a.go:3: txn may not import"),
		imports("txn/a.go", engineDir+"checktest", engineDir+"txn/a.go:3: txn may not import"),
		imports("operate/a.go", strings.TrimSuffix(engineDir, "/"), engineDir+"operate/a.go:3: operate may not import"),
		imports("other/a.go", "driver", engineDir+"other/a.go:1: the list engine has no place"),
	)
}
