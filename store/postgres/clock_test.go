package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clocktest"
)

// TestServerClockIsSet: inv:K1, inv:K3. The clock of the server goes forward and back while
// processes live, die and open: no lease of a living worker ends early, and the jobs of killed ones
// are claimed again in time. SOJOURN_CLOCK_SEED is the first random schedule, SOJOURN_CLOCK_SEEDS
// how many there are.
func TestServerClockIsSet(t *testing.T) {
	first, n := number("SOJOURN_CLOCK_SEED", 1), number("SOJOURN_CLOCK_SEEDS", 2)
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, uint64(first+i))
	}
	clocktest.Run(t, seeds, drivenServer)
}

// drivenServer is a schema with a clock_timestamp() that the test sets; it precedes the server's
// own function in the search_path.
func drivenServer(t *testing.T) clocktest.Database {
	schema := newSchema(t)
	address := with(t, testURL(t), "search_path", schema+",pg_catalog")
	execute(t, testURL(t), fmt.Sprintf(`create schema %[1]s; create table %[1]s.driven (us bigint); insert into %[1]s.driven values (0);
		create function %[1]s.clock_timestamp() returns timestamptz language sql volatile as
		'select timestamptz ''epoch'' + us * interval ''1 microsecond'' from %[1]s.driven'`, schema))
	set, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close(t.Context()) })
	o, err := newOptions([]Option{Schema(schema), AutoMigrate()})
	if err != nil {
		t.Fatal(err)
	}
	return clocktest.Database{
		Set: func(now time.Time) {
			if _, err := set.Exec(t.Context(), "update "+schema+".driven set us = $1", now.UnixMicro()); err != nil {
				t.Fatal(err)
			}
		},
		Open: func(p clocktest.Process) driver.Store {
			db, err := openDB(t.Context(), address, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.fit(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			cfg := o.config()
			cfg.Now, cfg.Elapsed, cfg.LoneClock = p.Now, p.Elapsed, p.Alone
			s, err := sqlstore.New(t.Context(), db, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	}
}
