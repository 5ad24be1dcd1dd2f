//go:build !unix

package filesys

// ID identifies a file independently of its path.
type ID struct{}

// String is empty: nothing is known.
func (ID) String() string { return "" }

// Identify finds nothing to compare: Windows neither removes nor renames a file that SQLite has
// open.
func Identify(string) (ID, error) { return ID{}, nil }
