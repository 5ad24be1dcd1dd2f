// Package driver is the part of a store that workers, servers and tools use, as database/sql/driver
// is for databases: claims, leases and outcomes. [Store] is a whole store; storetest.Run checks an
// implementation.
//
// Applications use [sojourn.Client] and package worker instead.
package driver
