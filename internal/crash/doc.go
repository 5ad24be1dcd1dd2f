// Package crash kills real processes and checks the stored data. It has only tests: a child process
// enqueues, works and responds on a SQLite file or in PostgreSQL until kill -9 ends it, or the
// database server, again and again. Then every acknowledged job and response must be stored, and
// no job may be stuck. A control arm acknowledges too early or skips fsync, and must lose jobs.
//
// The same tests run against sojourn serve, with workers in four languages and producers over HTTP.
//
// SOJOURN_CRASH_CYCLES sets the number of kills, default 8; on PostgreSQL at most 40.
// SOJOURN_CRASH_SERVE_CYCLES is the number for sojourn serve, default 3.
package crash
