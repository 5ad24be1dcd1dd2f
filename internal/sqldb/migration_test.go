package sqldb

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestStatements(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		" ; -- only; a comment\n ;\n":  nil,
		"a; b":                         {"a", "b"},
		"a 'x;''y' \"q;\" ;b /* ; */;": {"a 'x;''y' \"q;\"", "b /* ; */"},
		"-- about a;\na\n;\nb -- end;": {"-- about a;\na", "b -- end;"},
		"do $$ begin x; end $$; b":     {"do $$ begin x; end $$", "b"},
		"f $tag$ ; $$ ; $tag$; $1 ; c": {"f $tag$ ; $$ ; $tag$", "$1", "c"},
		"never 'closed ; b":            {"never 'closed ; b"},
	} {
		if got := Statements(text); !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestLoadMigrations(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := LoadMigrations(fstest.MapFS{"0002_more.sql": file("c;"), "0003_additive.sql": file("-- needs: 2\ne;"), "0001_kernel.sql": file("a; b;"), "0001_kernel.down.sql": file("d;")})
	want := []Migration{{1, "kernel", 1, "a; b;", "d;"}, {2, "more", 2, "c;", ""}, {3, "additive", 2, "-- needs: 2\ne;", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for about, files := range map[string]fstest.MapFS{
		"the name must be": {"0001_kernel.sql": file("a"), "notes.txt": file("x")},
		"is missing":       {"0001_kernel.sql": file("a"), "0003_more.sql": file("x")},
		"two names":        {"0001_kernel.sql": file("a"), "0001_other.sql": file("x")},
		"no way up":        {"0001_kernel.down.sql": file("a")},
		"out of range":     {"0001_kernel.sql": file("-- needs: 2\na;")},
		"the step before":  {"0001_kernel.sql": file("a"), "0002_more.sql": file("a"), "0003_less.sql": file("-- needs: 1\na;")},
		"no statements":    {"0001_kernel.sql": file("-- nothing;\n")},
	} {
		if _, err := LoadMigrations(files); err == nil || !strings.Contains(err.Error(), about) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

func FuzzStatements(f *testing.F) {
	for _, seed := range []string{"a; b", "'x;", "/*;*/ a;", "$$ ; $$;", "-- ;\n", "\f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces := Statements(text)
		rest := text
		for _, p := range pieces { // in order, nothing invented
			i := strings.Index(rest, p)
			if p == "" || i < 0 {
				t.Fatalf("%q of %q", p, text)
			}
			rest = rest[i+len(p):]
		}
		if again := Statements(strings.Join(pieces, "\n;\n")); !slices.Equal(again, pieces) {
			t.Fatalf("%q splits into %q, joined again into %q", text, pieces, again)
		}
	})
}
