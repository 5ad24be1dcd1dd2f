package postgres

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// TestAddress: an address sets the schema and prefix of the tables, in each of its forms.
func TestAddress(t *testing.T) {
	const prefix = "a_"
	schema := newSchema(t)
	cfg, _, err := parse(testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.ConnConfig
	object := map[string]any{"host": c.Host, "port": c.Port, "db": c.Database, "user": c.User, "schema": schema, "prefix": prefix}
	if c.Password != "" {
		object["password"] = c.Password
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	words := fmt.Sprintf("host=%s port=%d dbname=%s user=%s password='%s' schema=%s prefix=%s", c.Host, c.Port, c.Database, c.User, c.Password, schema, prefix)
	var id sojourn.ID
	for i, address := range []string{with(t, with(t, testURL(t), "schema", schema), "prefix", prefix), string(text), words} {
		client, err := Open(address, AutoMigrate())
		if err != nil {
			t.Fatalf("form %d: %v", i, err)
		}
		if id == 0 {
			j := sojourn.NewJob("k", []byte("1"))
			if _, err := client.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			id = j.ID
		}
		if _, err := client.Get(t.Context(), id); err != nil {
			t.Errorf("form %d opens other tables: %v", i, err)
		}
		client.Close()
	}
	address := with(t, testURL(t), "schema", schema)
	refused(t, address, sojourn.CodeInvalid, "use one of them", Schema("other"))
	refused(t, with(t, testURL(t), "schema", "A;b"), sojourn.CodeInvalid, "plain name")
	m, err := OpenMigrator(with(t, address, "prefix", prefix))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if s, err := m.Schema(t.Context()); err != nil || s.Found == 0 {
		t.Errorf("the migrator found %+v, %v", s, err)
	}
}

// TestPoolMaxConns: a store uses no more connections than its address allows, and works with the
// fewest.
func TestPoolMaxConns(t *testing.T) {
	refused(t, with(t, testURL(t), "pool_max_conns", "2"), sojourn.CodeInvalid, "3 connections or more")
	for most, want := range map[int]split{3: {1, 1}, 4: {1, 2}, 6: {3, 2}, 12: {7, 4}, 50: {7, 4}} {
		if s, err := splitOf(most); err != nil || s != want || s.total() > most || s.runners()+s.enders() > s.writers {
			t.Errorf("%d connections: %+v with %d runners and %d enders, %v", most, s, s.runners(), s.enders(), err)
		}
	}
	schema := emptySchema(t)
	s := newStorm(t, with(t, with(t, testURL(t), "pool_max_conns", "3"), "application_name", schema), Schema(schema))
	var count atomic.Int64
	all := s.blow(t, 16, func() bool {
		if s.acked.Load()%20 == 0 {
			n := pgtest.Number(t, testURL(t), `select count(*) from pg_stat_activity where application_name = '`+schema+`'`)
			if n > count.Load() {
				count.Store(n)
			}
		}
		return s.acked.Load() < 400
	})
	for _, one := range all {
		if one.code != "" {
			t.Errorf("job %d: %s", one.id, one.code)
		}
	}
	if n := count.Load(); n > 3 || n == 0 {
		t.Errorf("%d connections", n)
	}
}
