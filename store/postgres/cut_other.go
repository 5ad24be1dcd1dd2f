//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing: this operating system has no such limit for a single connection, and
// notices a silent peer by keep-alive alone.
func limitSilence(string, string, syscall.RawConn) error { return nil }
