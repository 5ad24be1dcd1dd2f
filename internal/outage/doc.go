// Package outage shows that answers come through whatever dies. Its tests send thousands of them
// over real brokers, which are killed and started again, to a process that is killed again and
// again.
//
//	plan_test.go      what is sent, and what must have become of it
//	scenario_test.go  who is killed when
//	child_test.go     the process with a source, workers and a store, that is killed
//	process_test.go   starting and killing processes
//	nats_test.go …    one file for each broker
//
// SOJOURN_OUTAGE_JOBS is the number of requests, default 2,000; SOJOURN_OUTAGE_SEED repeats a plan;
// SOJOURN_OUTAGE_STORE is sqlite, the default, or postgres, a cluster of the test's own.
package outage
