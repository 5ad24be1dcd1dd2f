// Package othersqlite tests, with a real second copy of SQLite in the process, that store/sqlite
// refuses its transactions. It is a module of its own, because that copy is written in C and must
// not come near the programs of users. Run it with make othersqlite.
package othersqlite
