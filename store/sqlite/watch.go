package sqlite

import (
	"context"
	"strconv"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/follow"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/logwatch"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

var _ sqldb.Signaler = (*DB)(nil)

// Signal implements sqldb.Signaler. The write-ahead log itself is the signal.
func (d *DB) Signal([]string) {}

// Signals implements sqldb.Signaler.
func (d *DB) Signals() string {
	switch {
	case d.memory():
		return ""
	case logwatch.Works:
		return "inotify"
	default:
		return "poll"
	}
}

// Watch implements sqldb.Signaler.
func (d *DB) Watch(heard func(topics []string)) (stop func()) {
	if d.memory() {
		return func() {}
	}
	w, err := logwatch.New(d.path+"-wal", d.path+owner.Mark)
	if err != nil {
		return func() {} // polling is left
	}
	stop, err = follow.Start(w, d, func() { heard(nil) })
	if err != nil {
		w.Close()
		return func() {}
	}
	return stop
}

// Shared implements follow.Database.
func (d *DB) Shared() (shared bool, err error) {
	levels, err := owner.Living(d.path, d.owner.ID(), d.prefix)
	return len(levels) > 0, err
}

// Unseen implements follow.Database.
func (d *DB) Unseen() (unseen bool, err error) {
	if err := d.begin(); err != nil {
		return false, err
	}
	defer d.calls.Done()
	c, err := d.take(context.Background(), d.writer)
	if err != nil {
		return false, err
	}
	defer func() { d.give(c, d.writer) }()
	version, err := c.dataVersion(context.Background())
	return version != d.seen, err
}

// dataVersion changes when another connection has committed.
func (c *conn) dataVersion(ctx context.Context) (version int64, err error) {
	err = c.patiently(ctx, func() error {
		text, err := ask(c.raw, "pragma data_version")
		if err == nil {
			version, err = strconv.ParseInt(text, 10, 64)
		}
		return err
	})
	return version, err
}
