package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// errMoved is the cause of a refusal when a path no longer leads to the file that SQLite has open.
// SQLite would go on writing to a file that cannot be opened again.
var errMoved = errors.New("removed or replaced while it was in use")

// place is a path and the file that SQLite has open there.
type place struct {
	path string
	file filesys.ID
}

// places are the database, its write-ahead log and the index of that.
func places(path string) (found []place, err error) {
	for _, end := range []string{"", "-wal", "-shm"} {
		file, err := filesys.Identify(path + end)
		if err != nil {
			return nil, fmt.Errorf("sqlite: look at %s: %w", path+end, err)
		}
		found = append(found, place{path + end, file})
	}
	return found, nil
}

// inPlace refuses all work from now on if a file is not in its place any more. It comes before each
// answer.
func (d *DB) inPlace() error {
	for _, p := range d.places {
		found, err := filesys.Identify(p.path)
		if err == nil && found == p.file {
			continue
		}
		cause := fmt.Errorf("%s was %w", p.path, errMoved)
		if err != nil {
			cause = fmt.Errorf("%w (%w)", cause, err)
		}
		d.fail(cause)
		return d.refusal()
	}
	return nil
}

// Elsewhere implements sqldb.Located.
func (d *DB) Elsewhere(context.Context) (processes []string, err error) {
	if d.memory() {
		return nil, d.refusal()
	}
	return owner.Elsewhere(d.path, d.owner.ID(), d.places[0].file)
}
