package logwatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWatch: a write to the log is seen only while its watch is on, an owner's file always, and no
// other file.
func TestWatch(t *testing.T) {
	database := filepath.Join(t.TempDir(), "jobs.db")
	log, owners := database+"-wal", database+"-owner-"
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(log)
	w, err := New(log, owners)
	if err != nil {
		t.Fatal(err)
	}
	next := func(name string, want Seen) {
		t.Helper()
		if got, ok := w.Wait(0); got != want || !ok {
			t.Errorf("%s: seen %+v (%v), want %+v", name, got, ok, want)
		}
	}
	watchLog := func(on bool) {
		t.Helper()
		if err := w.Log(on); err != nil {
			t.Error(err)
		}
	}
	write(log)
	write(database + "-shm")
	write(owners + "a")
	next("an owner's file while the log is not watched", Seen{Owners: true})
	watchLog(true)
	watchLog(true) // no change
	write(log)
	next("a write to the log", Seen{Log: true})
	watchLog(false)
	write(log)
	if seen, ok := w.Wait(time.Millisecond); seen != (Seen{}) || !ok {
		t.Errorf("a write to the log that is not watched: seen %+v (%v)", seen, ok)
	}
	if err := os.Remove(owners + "a"); err != nil {
		t.Error(err)
	}
	next("a removed owner's file", Seen{Owners: true})
	w.Close()
	if _, ok := w.Wait(0); ok {
		t.Error("a closed watch goes on")
	}
	if err := w.Log(true); err == nil {
		t.Error("a closed watch watches the log")
	}
}
