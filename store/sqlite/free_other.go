//go:build !linux && !darwin

package sqlite

// freeBytes is not known here.
func freeBytes(string) int64 { return -1 }
