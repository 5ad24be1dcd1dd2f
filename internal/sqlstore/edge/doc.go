// Package edge keeps the dependencies between jobs. An edge says that a child waits for a parent.
// The row of a blocked child counts its open edges, the row of a parent has a flag if any edge
// names it: a job without edges costs no statement more.
//
// Locks (rules:G3, rules:G4): whoever stores an edge locks the parent's row and reads its state in
// a later statement. Whoever resolves or removes one locks the child's row and reads the edge in a
// later statement. So an edge is resolved exactly once, and the transaction that resolves the last
// one releases the child.
//
// A job that advances resolves the edges that wait for its stage, in the same ways. A job that
// awaits its children has edges to them whose on_failure is awaited.
//
// A job that ends decides its children in its own transaction, if they are at most MaxChildren. All
// others wait in sj_ending, the outbox: those of jobs with more children, and those of a child that
// ends with its parent. So a cascade goes on by one level a transaction. The process that has
// written an entry works on it after its commit, and any sweep goes on if that process dies.
package edge
