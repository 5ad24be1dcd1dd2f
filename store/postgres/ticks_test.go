package postgres

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/ticktest"
)

// inv:E1 inv:E3 spec:N3: five processes on one database, of which some are killed, and whose clocks
// are wrong: each tick has one job. Without SOJOURN_CALENDAR=all it takes the zones with the
// strangest changes and three years.
func TestTicksOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and kills processes on a server")
	}
	schema := newSchema(t)
	scale := ticktest.Scale{Zones: []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Pacific/Apia"}, Years: []int{2011, 2026, 2037}, Cron: 4, Kills: 10}
	if os.Getenv("SOJOURN_CALENDAR") == "all" {
		scale = ticktest.Scale{Cron: 2, Kills: 300, Report: true}
	}
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SOJOURN_TEST_TICKS="+schema, "SOJOURN_TEST_POSTGRES="+testURL(t))
		return cmd
	}
	ticktest.Run(t, scale, start, func(now func() time.Time) (*sojourn.Client, error) {
		return Open(testURL(t), Schema(schema), AutoMigrate(), Clock(now))
	})
}

// inv:E1: the database itself refuses a second job for a tick, whatever a program believes.
func TestTicksAreUnique(t *testing.T) {
	schema := newSchema(t)
	if err := open(t, Schema(schema), AutoMigrate()).Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), with(t, testURL(t), "search_path", schema))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	insert := func(tick, job int) error {
		_, err := conn.Exec(t.Context(), "insert into sj_tick (schedule, tick_us, job) values ('nightly', $1, $2)", tick, job)
		return err
	}
	if err := cmp.Or(insert(1, 1), insert(2, 2)); err != nil {
		t.Fatal(err)
	}
	if err := insert(1, 3); err == nil {
		t.Error("a tick has two jobs")
	}
}
