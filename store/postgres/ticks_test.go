package postgres

import (
	"os"
	"os/exec"
	"testing"
	"time"

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
