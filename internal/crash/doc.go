// Package crash kills real processes and looks at what is left. It has only tests: a child process
// enqueues, works and answers on a SQLite file or in PostgreSQL until kill -9 ends it, or the
// server below it, again and again; then whatever was acknowledged must be stored, and nothing may
// be stuck. A control arm acknowledges too early, or does not wait for the disk, and must lose
// jobs.
//
// The same is done to sojourn serve, which workers in four languages and producers reach over HTTP.
//
// SOJOURN_CRASH_CYCLES sets the number of kills, default 8; on PostgreSQL at most 40.
// SOJOURN_CRASH_SERVE_CYCLES is the number for sojourn serve, default 3.
package crash
