package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Drift compares the schema of the database with that of the migrations; see migrate.Migrator.
func (m *Migrator) Drift(ctx context.Context) ([]string, error) {
	s, err := m.Schema(ctx)
	if err != nil {
		return nil, err
	}
	if s.Found == 0 {
		return nil, Fits(s, "the store")
	}
	if s.Found > s.Newest {
		return nil, &sojourn.Error{Code: sojourn.CodeSchema, Field: "store", Index: -1,
			Message: fmt.Sprintf("the schema has version %d and this program knows %d: check it with the program that made it", s.Found, s.Newest)}
	}
	db, ok := m.db.(sqldb.Rehearser)
	if !ok {
		return nil, errors.New("this database cannot try its migrations")
	}
	var want, have map[string]string
	d := m.db.Dialect()
	err = db.Rehearse(ctx, func(c sqldb.Conn, prefix string) (err error) {
		for _, step := range d.Migrations[:s.Found] {
			for _, q := range append([]string{qMigrations}, sqldb.Statements(step.Up)...) {
				if _, err := c.Exec(d.SQL(prefix, "", q)); err != nil {
					return err
				}
			}
		}
		want, err = outline(c, d, prefix)
		return err
	})
	if err == nil {
		err = m.db.View(ctx, func(c sqldb.Conn) (err error) { have, err = outline(c, d, m.prefix); return err })
	}
	return differences(want, have), err
}

// outline reads the schema of the tables with a prefix: the definition of each object by its name,
// such as "column sj_job.id".
func outline(c sqldb.Conn, d sqldb.Dialect, prefix string) (map[string]string, error) {
	out := map[string]string{}
	err := c.Query(d.Shape, func(r sqldb.Row) error {
		out[r.Text(0)] = strings.Join(strings.Fields(r.Text(1)), " ")
		return nil
	}, prefix)
	return out, err
}

// differences lists the objects in which have differs from want, sorted.
func differences(want, have map[string]string) (out []string) {
	for name, w := range want {
		switch h, ok := have[name]; {
		case !ok:
			out = append(out, name+" is missing")
		case h != w:
			out = append(out, fmt.Sprintf("%s is %q instead of %q", name, h, w))
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			out = append(out, name+" is not from a migration")
		}
	}
	slices.Sort(out)
	return out
}
