// Package sqlite keeps jobs in an SQLite database: a file, or ":memory:" for tests. Several
// processes may use one file at a time.
//
// Acknowledged writes are on the disk: the write-ahead log is synced before a call returns, and
// every setting is read back when the file is opened. A file of another program, a damaged one, and
// one on a network file system are refused.
//
// FILE-wal and FILE-shm belong to FILE. Each open store also has a file FILE-owner-ID beside it,
// which shows the others that its process lives. Back up with SQLite's own means (VACUUM INTO,
// .backup), not by copying FILE alone.
//
// SQLite is linked as pure Go (modernc.org/sqlite through zombiezen.com/go/sqlite). A program that
// links a second copy of SQLite must not open the same file with it: closing it there frees this
// package's locks.
//
// Reading order: opendb.go opens a file, prepare.go checks it, db.go holds its connections,
// lifecycle.go refuses calls after the end or an error of the disk, conn.go runs one transaction,
// log.go syncs the log, internal/owner detects dead processes.
package sqlite
