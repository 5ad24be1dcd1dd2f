package archive

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Archives are the calls about archives of a client. Safe for concurrent use.
type Archives struct{ store Store }

// Of returns the calls about archives of a client. If its store has none, each call returns an
// error with CodeInvalid.
func Of(c *sojourn.Client) Archives { return Archives{StoreOf(c.Store())} }

// StoreOf is a store's ability to keep archives. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if a, ok := s.(Store); ok {
		return a
	}
	return none{}
}

// Add makes an archive; see Store.AddArchive.
func (a Archives) Add(ctx context.Context, d Definition) (Status, error) {
	if err := d.Validate(); err != nil {
		return Status{}, err
	}
	return a.store.AddArchive(ctx, d)
}

// List lists archives; see Store.Archives.
func (a Archives) List(ctx context.Context) ([]Status, error) { return a.store.Archives(ctx) }

// Remove deletes an archive; see Store.RemoveArchive.
func (a Archives) Remove(ctx context.Context, name string) error {
	return a.store.RemoveArchive(ctx, name)
}

// Lease gives an archive to a runner; see Store.LeaseArchive.
func (a Archives) Lease(ctx context.Context, name, runner string, d time.Duration) (Lease, error) {
	return a.store.LeaseArchive(ctx, name, runner, d)
}

// Read reads final jobs that are not exported; see Store.ReadArchive.
func (a Archives) Read(ctx context.Context, r Read) (Page, error) { return a.store.ReadArchive(ctx, r) }

// Record records exported jobs; see Store.RecordArchive.
func (a Archives) Record(ctx context.Context, r Record) error { return a.store.RecordArchive(ctx, r) }

// none is a store without archives.
type none struct{}

func (none) AddArchive(context.Context, Definition) (Status, error) { return Status{}, errNone() }

func (none) Archives(context.Context) ([]Status, error) { return nil, errNone() }

func (none) RemoveArchive(context.Context, string) error { return errNone() }

func (none) LeaseArchive(context.Context, string, string, time.Duration) (Lease, error) {
	return Lease{}, errNone()
}

func (none) ReadArchive(context.Context, Read) (Page, error) { return Page{}, errNone() }

func (none) RecordArchive(context.Context, Record) error { return errNone() }

func errNone() error {
	return sojourn.Invalid("store", "this store has no archives; use one of store/sqlite or store/postgres")
}
