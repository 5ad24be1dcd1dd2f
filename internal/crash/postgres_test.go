package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

// newDatabase makes a cluster with the tables of a store.
func newDatabase(t *testing.T) *pgtest.Cluster {
	t.Helper()
	cluster := pgtest.NewCluster(t)
	c, err := postgres.Open(cluster.URL, postgres.AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// crashServer ends the server without a word, by kill -9 or as a crash does, and starts it again.
func crashServer(t *testing.T, c *pgtest.Cluster, kill bool) {
	t.Helper()
	end, begin := c.Immediate, c.Start
	if kill {
		end, begin = c.Kill, c.Restart
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := begin(); err != nil {
		t.Error(err)
	}
}

// TestKillPostgres kills a process that enqueues, works and answers, or the server below it, or
// both, at random instants (inv:A1, inv:L2, spec:L8). What was acknowledged is stored, and every
// job gets to its end.
func TestKillPostgres(t *testing.T) {
	cluster := newDatabase(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	l, n, servers := newLedger(), min(cycles(t), 40), 0
	for i := range n {
		life := time.Duration(100+random.IntN(500))*time.Millisecond + startUp
		crashed := make(chan struct{})
		if i%2 == 0 {
			close(crashed)
		} else {
			servers++
			time.AfterFunc(life/2, func() { defer close(crashed); crashServer(t, cluster, i%4 == 1) })
			life += time.Second // it works on when the server is back
		}
		l.run(t, childWorks, cluster.URL, life)
		<-crashed
	}
	l.run(t, childDrains, cluster.URL, 0)
	r := l.audit(t, cluster.URL)
	t.Logf("%d kill -9 cycles, %d crashes of the server among them, %d jobs and %d answers acknowledged: %d and %d lost, %d stuck, %d runs unexplained",
		n, servers, len(l.acked), len(l.answered), r.lost, r.lostAnswers, r.stuck, r.unexplained)
	if r != (remains{}) {
		t.Errorf("%+v", r)
	}
	if len(l.acked) < n || len(l.answered) == 0 {
		t.Errorf("only %d jobs and %d answers were acknowledged: the test shows nothing", len(l.acked), len(l.answered))
	}
}

// TestKillPostgresControl is the control arm: with synchronous_commit=off a crash of the server
// must lose acknowledged jobs, else TestKillPostgres could not fail. The server writes
// its log to disk only every 10 s here, and crashes when some jobs of this run are acknowledged.
func TestKillPostgresControl(t *testing.T) {
	cluster := newDatabase(t)
	pgtest.SQL(t, cluster.URL, "alter system set wal_writer_delay = '10s'")
	pgtest.SQL(t, cluster.URL, "select pg_reload_conf()")
	address := pgtest.With(t, cluster.URL, "synchronous_commit", "off")
	l := newLedger()
	for range 20 {
		enough, crashed := l.ackedJobs()+20, make(chan struct{})
		go func() {
			defer close(crashed)
			for patience := time.Now().Add(time.Minute); l.ackedJobs() < enough && time.Now().Before(patience); {
				time.Sleep(5 * time.Millisecond)
			}
			crashServer(t, cluster, false)
		}()
		l.run(t, childRelaxed, address, 3*time.Second)
		<-crashed
		if lost := l.lost(t, address); lost > 0 {
			t.Logf("synchronous_commit=off: %d of %d acknowledged jobs lost", lost, len(l.acked))
			return
		}
	}
	t.Errorf("synchronous_commit=off has lost none of %d acknowledged jobs", len(l.acked))
}
