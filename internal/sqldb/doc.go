// Package sqldb is the seam between the engine and its databases. The engine, package sqlstore,
// sends SQL through [DB] and [Conn] and knows no driver; package store/sqlite and package
// store/postgres implement both.
//
// Every statement is one text for all databases. A [Dialect] renders it for one of them when a
// store opens. What only some databases can do is an optional interface, such as [Committer] or
// [Owners].
package sqldb
