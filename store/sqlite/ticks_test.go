package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/ticktest"
	"github.com/sojourn-queue/sojourn/schedule"
)

// inv:E1 spec:N3: five stores on one file, each with a clock of its own that may be behind, and
// that are closed and opened again: no tick has two jobs and none is missed, over both clock
// changes of a zone, also for a schedule that is deleted and set again.
func TestTicksOfManyStores(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "jobs.db")
	for _, from := range []time.Time{time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 21, 0, 0, 0, time.UTC)} {
		now := from
		open := func(behind time.Duration) *sojourn.Client {
			c, err := Open(path, Clock(func() time.Time { return now.Add(-behind) }))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		var nodes [5]*sojourn.Client
		for i := range nodes {
			nodes[i] = open(0)
		}
		d := schedule.Schedule{Name: "night" + from.Format("Jan"), Cron: "*/10 * * * *", Zone: "Europe/Berlin", CatchUp: schedule.MaxCatchUp, Job: sojourn.NewJob("report", nil)}
		ctx := context.Background()
		set := func(c *sojourn.Client) {
			if _, err := schedule.Of(c).Set(ctx, d); err != nil {
				t.Fatal(err)
			}
		}
		set(nodes[0])
		for range 60 {
			now = now.Add(time.Duration(dice.IntN(10)) * time.Minute)
			i := dice.IntN(len(nodes))
			switch dice.IntN(4) {
			case 0: // a node ends, and another one begins, whose clock is behind
				if err := nodes[i].Close(); err != nil {
					t.Fatal(err)
				}
				nodes[i] = open(time.Duration(dice.IntN(45)) * time.Minute)
			default:
				if _, err := driver.Of(nodes[i]).Sweep(ctx, 100); err != nil {
					t.Fatal(err)
				}
			}
		}
		last := open(0)
		sweep := func() {
			if _, err := driver.Of(last).Sweep(ctx, 100); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		want, err := d.Ticks(from, int(now.Sub(from)/(10*time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		made := ticksOf(t, last, d.Name)
		for _, tick := range want {
			if made[tick.UTC()] != 1 {
				t.Errorf("the tick at %s has %d jobs", tick, made[tick.UTC()])
			}
		}
		if len(made) != len(want) {
			t.Errorf("%d ticks have jobs, want %d", len(made), len(want))
		}
		// Deleted, and set again by a node whose clock is behind: no tick is made twice.
		if err := schedule.Of(last).Delete(ctx, d.Name); err != nil {
			t.Fatal(err)
		}
		late := open(35 * time.Minute)
		set(late)
		now = now.Add(20 * time.Minute)
		sweep()
		for tick, n := range ticksOf(t, last, d.Name) {
			if n != 1 {
				t.Errorf("after the schedule was set again, the tick at %s has %d jobs", tick, n)
			}
		}
		for _, c := range append(nodes[:], last, late) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// inv:E1 inv:E3 spec:N3: five processes on one file, of which some are killed, and whose clocks are
// wrong: each tick has one job. Without SOJOURN_CALENDAR=all it takes two zones and one year.
func TestTicksOfProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	scale := ticktest.Scale{Zones: []string{"Europe/Berlin", "Australia/Lord_Howe"}, Years: []int{2026}, Cron: 6, Kills: 6}
	if os.Getenv("SOJOURN_CALENDAR") == "all" {
		scale = ticktest.Scale{Cron: 2, Kills: 300, Report: true}
	}
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SOJOURN_TEST_COMMAND=ticks", "SOJOURN_TEST_PATH="+path)
		return cmd
	}
	ticktest.Run(t, scale, start, func(now func() time.Time) (*sojourn.Client, error) { return Open(path, Clock(now), Relaxed()) })
}

// ticksOf counts the jobs of each tick of a schedule.
func ticksOf(t *testing.T, c *sojourn.Client, name string) map[time.Time]int {
	t.Helper()
	made := map[time.Time]int{}
	for j, err := range c.Jobs().All(context.Background(), sojourn.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if j.Schedule == name {
			made[j.ScheduledFor.UTC()]++
		}
	}
	return made
}

// inv:E1: the database itself refuses a second job for a tick, whatever a program believes.
func TestTicksAreUnique(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	insert := func(tick, job int) error {
		return d.Update(t.Context(), func(c sqldb.Conn) error {
			_, err := c.Exec(fmt.Sprintf("insert into sj_tick (schedule, tick_us, job) values ('nightly', %d, %d)", tick, job))
			return err
		})
	}
	if err := cmp.Or(insert(1, 1), insert(2, 2)); err != nil {
		t.Fatal(err)
	}
	if err := insert(1, 3); err == nil {
		t.Error("a tick has two jobs")
	}
}
