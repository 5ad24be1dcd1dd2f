// Package overload sends a server many times what it can do, and looks at those who have started
// work. It has only tests: producers offer a multiple of the batches that the server can store,
// others enqueue one job at a time and list jobs, and meanwhile workers keep their leases and
// report. What the server has no room for must be refused in the right form, reports must come
// through in time, no lease may be lost, and what was acknowledged must be stored.
//
// SOJOURN_OVERLOAD sets for how long, default 3s, and has the p99 of reports judged;
// SOJOURN_OVERLOAD_TIMES how many times the server's own rate is offered, default 10.
package overload
