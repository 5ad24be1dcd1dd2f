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
	var want, have map[string]object
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
	others := map[string]bool{}
	if err == nil {
		err = m.db.View(ctx, func(c sqldb.Conn) (err error) {
			if have, err = outline(c, d, m.prefix); err == nil {
				err = m.findOthers(c, want, have, others)
			}
			return err
		})
	}
	return differences(want, have, others), err
}

// findOthers adds the tables in have that belong to other instances. Either the other prefix begins
// with this one, as "sj_mail_" does with "sj_", or this prefix is the beginning of a name in the
// other instance, as "sj_key_" is of sj_key_past.
func (m *Migrator) findOthers(c sqldb.Conn, want, have map[string]object, others map[string]bool) error {
	home := m.prefix[:strings.LastIndexByte(m.prefix, '.')+1]
	own := m.prefix[len(home):]
	tables := map[string]bool{} // of an instance, without the prefix
	for _, w := range want {
		tables[strings.TrimPrefix(w.table, own)] = true
	}
	known := map[string]bool{own: false} // prefix → there is another instance with it
	for _, h := range have {
		if tables[strings.TrimPrefix(h.table, own)] {
			continue
		}
		for table := range tables {
			prefix, ok := strings.CutSuffix(h.table, table)
			if _, done := known[prefix]; !ok || done || prefix == "" {
				continue
			}
			find := func(r sqldb.Row) error { known[prefix] = r.Int(0) > 0; return nil }
			if err := c.Query(m.db.Dialect().FindTable, find, home+prefix+"migration"); err != nil {
				return err
			}
		}
	}
	for _, h := range have {
		for prefix, there := range known {
			if there && strings.HasPrefix(h.table, prefix) {
				bare := strings.TrimPrefix(h.table, prefix)
				others[h.table] = others[h.table] || len(prefix) > len(own) || tables[bare]
			}
		}
	}
	return nil
}

// object is a part of the schema: its definition, and the table to which it belongs.
type object struct{ text, table string }

// outline reads the schema of the tables with a prefix: each object by its name, such as "column
// sj_job.id".
func outline(c sqldb.Conn, d sqldb.Dialect, prefix string) (map[string]object, error) {
	out := map[string]object{}
	err := c.Query(d.Shape, func(r sqldb.Row) error {
		out[r.Text(0)] = object{strings.Join(strings.Fields(r.Text(1)), " "), r.Text(2)}
		return nil
	}, prefix)
	return out, err
}

// differences lists the objects in which have differs from want, sorted. Tables of other instances
// are no difference.
func differences(want, have map[string]object, others map[string]bool) (out []string) {
	for name, w := range want {
		switch h, ok := have[name]; {
		case !ok:
			out = append(out, name+" is missing")
		case h.text != w.text:
			out = append(out, fmt.Sprintf("%s is %q instead of %q", name, h.text, w.text))
		}
	}
	for name, h := range have {
		if _, ok := want[name]; !ok && !others[h.table] {
			out = append(out, name+" is not from a migration")
		}
	}
	slices.Sort(out)
	return out
}
