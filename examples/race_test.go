//go:build race

package examples_test

// buildFlags are those of make test, so that the examples are built from what is compiled already.
var buildFlags = []string{"-race", "-gcflags=modernc.org/...=-race=false"}
