package store

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func TestPath(t *testing.T) {
	for _, c := range []struct{ url, path, refusal string }{
		{"sqlite:app.db", "app.db", ""},
		{"sqlite:/var/lib/app", "/var/lib/app", ""},
		{"sqlite:///var/lib/app", "/var/lib/app", ""},
		{"sqlite:C:\\data\\app.db", "C:\\data\\app.db", ""},
		{"sqlite::memory:", ":memory:", ""},
		{"app.db", "app.db", ""},
		{"./some folder/app.db", "./some folder/app.db", ""},
		{"C:\\data\\app.db", "C:\\data\\app.db", ""},
		{"", "", "is empty"},
		{"sqlite:", "", "names no file"},
		{"sqlite://app.db", "", "names a host"},
		{"sqlite:app.db?prefix=mail_", "app.db", ""},
		{"app.db?prefix=mail_", "app.db", ""},
		{"sqlite::memory:?prefix=mail_", ":memory:", ""},
		{"sqlite:app.db?", "app.db", ""},
		{"sqlite:app.db?mode=ro", "", "parameters that are unknown"},
		{"sqlite:app.db?prefix=a_&prefix=b_", "", "repeated"},
		{"sqlite:app.db?prefix=%zz", "", "malformed parameters"},
		{"sqlite:app.db?prefix=Mail", "", `"Mail" is no plain name`},
		{"sqlite:app.db?prefix=sqlite_", "", "reserved"},
		{"app.db?prefix=ix_a_", "", "reserved"},
		{"app.db#x.db", "", "has a #"},
		{"sqlite:a\x00.db", "", "zero byte"},
		{"app.sqlite3", "", "neither"},
		{"mysql://me:secret@host/db", "", `scheme "mysql"`},
		{"redis:6379", "", `scheme "redis"`},
		{"SQLITE:app.db", "", `scheme "SQLITE"`},
	} {
		path, err := Path(c.url)
		if c.refusal == "" {
			if err != nil || path != c.path {
				t.Errorf("Path(%q) = %q, %v; want %q", c.url, path, err, c.path)
			}
			continue
		}
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("Path(%q) = %v; want an invalid store that %s", c.url, err, c.refusal)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func TestPostgresURL(t *testing.T) {
	for _, url := range []string{
		"postgres://me:secret@host:5432/db", "postgresql://host/db?sslmode=require&schema=a&prefix=b_", "postgres:///db?host=%2Ftmp&schema=a",
		`{"host": "db.example", "port": 5432, "db": "hipq"}`, // spec:A7
		` {"host": "/tmp", "schema": "a", "prefix": "b_"}`,
	} {
		if !isPostgres(url) || Valid(url) != nil {
			t.Errorf("%s is no valid URL of PostgreSQL: %v", url, Valid(url))
		}
	}
	for _, url := range []string{"postgres://me:secret@host:port/db", "postgres://me:secret@host/%zz", `{"password": "secret", }`, `{"password": "secret"} {}`,
		"postgres://me:secret@host/db?schema=A-b", "postgres://me:secret@host/db?prefix=ix_", "postgres://me:secret@host/db?prefix=Mail", "postgres://me:secret@host/db?pool_max_conns=2"} {
		if err := Valid(url); sojourn.ErrorCode(err) != sojourn.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("Valid(%q) = %v", url, err)
		}
	}
	if _, err := Open("postgres://me:secret@127.0.0.1:1/db?connect_timeout=2"); sojourn.ErrorCode(err) != sojourn.CodeUnavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open of a server that does not answer = %v", err)
	}
}

func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	if _, err := Open("sqlite:"+file, MustExist()); sojourn.ErrorCode(err) != sojourn.CodeUnavailable || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open with MustExist of a missing file = %v; want unavailable, fs.ErrNotExist", err)
	}
	if _, err := Open("sqlite:"+filepath.Dir(file), MustExist()); sojourn.ErrorCode(err) != sojourn.CodeUnavailable {
		t.Fatalf("Open of a folder = %v; want unavailable", err)
	}
	c, err := Open("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Enqueue(context.Background(), sojourn.NewJob("mail", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c, err = Open(file, MustExist())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if j, err := c.Get(context.Background(), e.ID); err != nil || j.Kind != "mail" {
		t.Fatalf("Get after reopening = %+v, %v", j, err)
	}
}

// TestOpenByPrefix: two addresses that differ in the prefix are two stores in one file.
func TestOpenByPrefix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.db")
	var ids []sojourn.ID
	for _, address := range []string{file, "sqlite:" + file + "?prefix=mail_"} {
		c, err := Open(address)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Enqueue(t.Context(), sojourn.NewJob("mail", nil, sojourn.Key("one")))
		if err != nil || e.Duplicate {
			t.Fatal(address, e, err)
		}
		ids = append(ids, e.ID)
		m, err := OpenMigrator(address, NoMigrate())
		if err != nil {
			t.Fatal(err)
		}
		if drift, err := m.Drift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("%s: %v %v", address, drift, err)
		}
		if err := errors.Join(m.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the first ids are %v; each instance counts for itself", ids)
	}
}
