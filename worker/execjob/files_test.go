package execjob

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestReplacedAtOnce: a checkpoint that a fast program has replaced before the watch begins is
// seen, once.
func TestReplacedAtOnce(t *testing.T) {
	f, err := new(Program).newFiles(t.Context(), t.TempDir(), &sojourn.Job{ID: 7, Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if f.replaced() {
		t.Error("nothing was replaced")
	}
	for range 2 {
		part := filepath.Join(f.folder, "new")
		if err := os.WriteFile(part, []byte("7"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(part, f.path("checkpoint")); err != nil {
			t.Fatal(err)
		}
		if !f.replaced() {
			t.Error("a new file was not seen")
		}
		if f.replaced() {
			t.Error("the same file was seen twice")
		}
	}
}
