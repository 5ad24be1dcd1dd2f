// Package postgres is the store on PostgreSQL 13 and later, for more than one machine: any number
// of processes work on one database, without a leader. It passes the same suite as store/sqlite,
// with the same statements.
// [Open] makes a client over a pool with a fixed number of connections. Acknowledged writes are as
// durable as the server: its settings are checked when the store opens. No call depends on a
// session, so it works behind a pooler in transaction mode; see docs/guides/postgresql.md.
package postgres
