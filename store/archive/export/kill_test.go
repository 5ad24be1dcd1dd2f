package export

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/archive"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// childEnv is the store that a process of TestKilled exports.
const childEnv = "SOJOURN_ARCHIVE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		c, err := sqlite.Open(path)
		if err == nil {
			_, _ = os.Stdout.WriteString("opened\n")
			err = Run(context.Background(), c, "a", Options{MaxFile: 20_000, Poll: time.Millisecond})
		}
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilled kills a process that exports, at any point, again and again, while jobs end. At the
// end each job stands in the files exactly once.
func TestKilled(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("SOJOURN_ARCHIVE_KILLS"))
	if err != nil {
		kills = 30
	}
	if testing.Short() {
		kills = min(kills, 5)
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "jobs.db")
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	add(t, c, archive.Definition{Name: "a", To: "file:" + dir})
	var ids []sojourn.ID
	var group sync.WaitGroup
	ending := make(chan struct{})
	group.Go(func() {
		for {
			select {
			case <-ending:
				return
			default:
				ids = append(ids, finish(t, c, 1+rand.IntN(20))...)
			}
		}
	})
	for range kills {
		child := exec.Command(os.Args[0])
		child.Env, child.Stderr = append(os.Environ(), childEnv+"="+path), os.Stderr
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "opened\n" {
			t.Errorf("a process said %q (%v)", line, err)
		}
		time.Sleep(time.Duration(rand.IntN(200_000)) * time.Microsecond) // until the kill
		_ = child.Process.Kill()
		if err := child.Wait(); err == nil || child.ProcessState.ExitCode() > 0 {
			t.Errorf("a process ended by itself: %v", err)
		}
	}
	before := recorded(t, c)
	close(ending)
	group.Wait()
	if err := once(t, c, "a", Options{}); err != nil {
		t.Fatal(err)
	}
	times := map[sojourn.ID]int{}
	for _, id := range exported(t, dir) {
		times[id]++
	}
	for _, id := range ids {
		if times[id] != 1 {
			t.Errorf("job %d stands in the files %d times", id, times[id])
		}
	}
	t.Logf("%d kills: %d jobs, %d of them recorded before the last run, files: %s", kills, len(ids), before, names(t, dir))
	if len(times) != len(ids) || before == 0 {
		t.Errorf("the files have %d jobs, want %d; %d before the last run", len(times), len(ids), before)
	}
}
