//go:build !race

package examples_test

var buildFlags []string
