// Package crash kills real processes and looks at what is left. It has only tests: a child process enqueues, works and answers on a SQLite
// file until kill -9 ends it, again and again; then whatever was acknowledged must be stored, and nothing may be stuck.
//
// SOJOURN_CRASH_CYCLES sets the number of kills, default 8.
package crash
