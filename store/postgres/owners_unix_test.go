//go:build unix

package postgres

import (
	"syscall"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// TestStoppedProcess: spec:L8. A process that is stopped keeps its connection, so its leases end by
// time alone.
func TestStoppedProcess(t *testing.T) {
	schema := newSchema(t)
	m := newMember(t, testURL(t), schema)
	ids := enqueueKinds(t, m, "own", "remote")
	h := startHolder(t, testURL(t), schema)
	m.watch(t)
	if err := h.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	m.looked(t, 4)
	if j, err := m.Get(t.Context(), ids[0]); err != nil || j.State != sojourn.Running {
		t.Errorf("%v, %v", j, err)
	}
}

// TestServerEnds: spec:L8. After a crash or a restart of the server, or the death of one of its
// backends, which ends all connections, no lease of a living process is ended, although all locks
// are gone.
func TestServerEnds(t *testing.T) {
	start := func(t *testing.T, c *pgtest.Cluster) {
		t.Helper()
		if err := c.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for name, end := range map[string]func(t *testing.T, c *pgtest.Cluster){
		"crash":   func(t *testing.T, c *pgtest.Cluster) { c.Kill(); start(t, c) },
		"restart": func(t *testing.T, c *pgtest.Cluster) { c.Shutdown(t); start(t, c) },
		"death of a backend": func(t *testing.T, c *pgtest.Cluster) {
			pid := pgtest.Number(t, c.URL, "select min(pid) from pg_stat_activity where application_name like 'sojourn%'")
			if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := pgtest.NewCluster(t)
			victim, judge := newMember(t, cluster.URL, "s"), newMember(t, cluster.URL, "s")
			enqueueKinds(t, victim, "own")
			if err := victim.hold(victim.worker(), "own", 1); err != nil {
				t.Fatal(err)
			}
			until(t, "a recorded lock", victim.locked)
			judge.watch(t)
			judge.looked(t, 1)
			key := victim.db.owner.Recorded()
			end(t, cluster)
			var fresh *member // has seen no failure, so it judges at once
			until(t, "the server", func() (ok bool) {
				m, err := openMember(cluster.URL, "s")
				fresh = m
				return err == nil
			})
			t.Cleanup(func() { fresh.Close() })
			fresh.watch(t)
			until(t, "another lock", func() bool { return victim.db.owner.Recorded() != key && victim.locked() })
			fresh.looked(t, 3)
			if lost := victim.finish(t); lost > 0 {
				t.Error("the lease of a living process was ended")
			}
		})
	}
}

// TestLocksAfterAFailover: spec:L8. A standby that was promoted has no records of locks, so no
// living process is judged by them.
func TestLocksAfterAFailover(t *testing.T) {
	primary := pgtest.NewCluster(t)
	victim := newMember(t, primary.URL, "s")
	enqueueKinds(t, victim, "own")
	if err := victim.hold(victim.worker(), "own", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "a recorded lock", victim.locked)
	standby := primary.NewStandby(t)
	primary.Stall(t)
	primary.FailOver(t, standby)
	if n := pgtest.Number(t, standby.URL, "select count(*) from s.sj_owner"); n != 0 {
		t.Errorf("%d records of locks that are gone", n)
	}
	judge := newMember(t, standby.URL, "s")
	judge.watch(t)
	judge.looked(t, 4)
	if n := pgtest.Number(t, standby.URL, "select count(*) from s.sj_live where state = 4"); n != 1 {
		t.Errorf("%d leases of the one", n)
	}
}
