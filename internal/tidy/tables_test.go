package tidy

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// schemaName is the name of a table or an index with the default prefix.
var schemaName = regexp.MustCompile(`\b(?:sj|ix)_[a-z_]*[a-z]\b`)

// schemaNames are the names that the migrations of one of the stores contain.
func schemaNames(files []*file) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		if path.Ext(f.path) == ".sql" {
			for _, name := range schemaName.FindAllString(string(f.text), -1) {
				names[name] = true
			}
		}
	}
	return names
}

// knownTables returns the law that each table and index in the docs exists.
func knownTables(names map[string]bool) law {
	return func(f *file) (found []string) {
		if !strings.HasPrefix(f.path, "docs/") || path.Ext(f.path) != ".md" {
			return nil
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, name := range schemaName.FindAllString(line, -1) {
				if !names[name] {
					found = append(found, f.atLine(i+1, "%s is no table or index of the migrations", name))
				}
			}
		}
		return found
	}
}

func TestTablesOfTheDocsExist(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	obey(t, knownTables(schemaNames(files)))
}

func TestUnknownTablesArePlanted(t *testing.T) {
	names := schemaNames([]*file{{path: "a.sql", text: []byte("create index ix_live_ready on sj_live (id);")}})
	knownTables(names).finds(t,
		planted{"docs/a.md", "`sj_live` has ix_live_ready", ""},
		planted{"docs/a.md", "\nsj_live_ready", "docs/a.md:2: sj_live_ready is no table"},
		planted{"a.md", "sj_live_ready", ""},
	)
}
