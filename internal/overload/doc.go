// Package overload sends a server a multiple of its capacity and checks the workers that run jobs.
// It has only tests: producers offer more batches than the server can store, other callers enqueue
// single jobs and list jobs, and meanwhile workers extend their leases and report. Requests above
// the capacity must be refused in the right form, reports must arrive in time, no lease may be
// lost, and acknowledged jobs must be stored.
//
// SOJOURN_OVERLOAD sets the duration, default 3s, and enables the check of the reports' p99;
// SOJOURN_OVERLOAD_TIMES sets the multiple of the server's own rate, default 10.
package overload
