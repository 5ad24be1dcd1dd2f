package version

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// update writes the list of frozen migrations: make freeze-migrations.
var update = flag.Bool("update", false, "write testdata/migrations.sum: only as part of a release")

// frozen lists the migrations of all releases with their SHA-256. It is written by the release that
// adds a migration. Before the first release there is no list, and the migrations may change.
const frozen = "testdata/migrations.sum"

var headingLine = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - `)

// headings are the released versions of a changelog, newest first.
func headings(changelog string) (found []string) {
	for _, m := range headingLine.FindAllStringSubmatch(changelog, -1) {
		found = append(found, m[1])
	}
	return found
}

// later reports whether version a follows version b.
func later(a, b string) bool {
	numbers := func(v string) (n []int) {
		for part := range strings.SplitSeq(v, ".") {
			i, _ := strconv.Atoi(part)
			n = append(n, i)
		}
		return n
	}
	return slices.Compare(numbers(a), numbers(b)) > 0
}

// migrations returns the SHA-256 of each migration by its path below root.
func migrations(t *testing.T, root string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for _, dir := range []string{"store/sqlite/migrations", "store/postgres/migrations"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no migrations: %v", dir, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sums[dir+"/"+filepath.Base(name)] = fmt.Sprintf("%x", sha256.Sum256(text))
		}
	}
	return sums
}

// changed compares migrations with a list. A migration that is not in the list is one of the next
// release: it may change.
func changed(list string, now map[string]string) (found []string) {
	for line := range strings.Lines(list) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		switch {
		case !ok:
			found = append(found, fmt.Sprintf("%q is not a line of the list", line))
		case now[name] == "":
			found = append(found, name+" is missing: a released migration must stay")
		case now[name] != sum:
			found = append(found, name+" has changed since its release: add a new migration instead")
		}
	}
	return found
}

func list(sums map[string]string) string {
	var lines []string
	for name, sum := range sums {
		lines = append(lines, sum+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return strings.Join(lines, "")
}

// TestMigrationsAreFrozen compares the migrations with the list as soon as the changelog has a
// release, and wants no list before.
func TestMigrationsAreFrozen(t *testing.T) {
	now := migrations(t, "../..")
	released := headings(read(t, "CHANGELOG.md"))
	if *update {
		if len(released) == 0 || released[0] != Number {
			t.Fatalf("CHANGELOG.md has no heading for %s: the list is written by the release", Number)
		}
		if err := os.WriteFile(frozen, []byte(list(now)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(frozen)
	switch {
	case len(released) == 0 && err == nil:
		t.Errorf("%s exists, and CHANGELOG.md has no release: the list is written by the release", frozen)
	case len(released) == 0:
		return // the migrations may still change
	case err != nil:
		t.Fatalf("version %s is released: write the list with make freeze-migrations: %v", released[0], err)
	}
	for _, found := range changed(string(text), now) {
		t.Error(found)
	}
	if released[0] == Number && !*update {
		for name := range now {
			if !strings.Contains(string(text), "  "+name+"\n") {
				t.Errorf("%s is not in the list, and version %s is released: raise Number for the next version", name, Number)
			}
		}
	}
}

func TestChangedMigrationsAreFound(t *testing.T) {
	now := migrations(t, "../..")
	text := list(now)
	if found := changed(text, now); found != nil {
		t.Errorf("unchanged migrations: %v", found)
	}
	name := "store/sqlite/migrations/0001_kernel.sql"
	sum := now[name]
	now[name] = strings.Repeat("0", 64)
	if found := changed(text, now); len(found) != 1 || !strings.Contains(found[0], "has changed") {
		t.Errorf("a changed migration: %v", found)
	}
	delete(now, name)
	if found := changed(text, now); len(found) != 1 || !strings.Contains(found[0], "is missing") {
		t.Errorf("a removed migration: %v", found)
	}
	now[name], now["store/sqlite/migrations/0002_new.sql"] = sum, sum
	if found := changed(text, now); found != nil {
		t.Errorf("a new migration: %v", found)
	}
	if found := changed("nonsense\n", now); len(found) != 1 {
		t.Errorf("a malformed list: %v", found)
	}
	if got := headings("# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-31\n\n## [0.1.0] - 2026-01-01\n"); !slices.Equal(got, []string{"0.2.0", "0.1.0"}) {
		t.Errorf("headings: %v", got)
	}
}
