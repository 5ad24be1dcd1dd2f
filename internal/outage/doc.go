// Package outage shows that no response is lost when processes die. Its tests send thousands of
// responses over real brokers, which are killed and restarted, to a process that is killed
// repeatedly.
//
//	plan_test.go      the messages to send and their expected outcomes
//	scenario_test.go  the order of the kills
//	child_test.go     the process with a source, workers and a store, that is killed
//	process_test.go   starting and killing processes
//	nats_test.go …    one file for each broker
//
// SOJOURN_OUTAGE_JOBS is the number of requests, default 2,000; SOJOURN_OUTAGE_SEED repeats a plan;
// SOJOURN_OUTAGE_STORE is sqlite, the default, or postgres, a cluster of the test's own.
package outage
