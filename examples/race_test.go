//go:build race

package examples_test

// buildFlags are the flags of make test, so that builds of the examples use its build cache.
var buildFlags = []string{"-race", "-gcflags=modernc.org/...=-race=false"}
