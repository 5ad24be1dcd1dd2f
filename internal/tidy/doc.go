// Package tidy is the house's order, as tests. It has no code of its own: each law is a pure
// function over the text of a file, stands in a test file with the reason for it, runs over the
// whole tree, and is shown a planted breach that it must find.
//
//	length_test.go    how long a function, a file and the list at the root may be
//	docs_test.go      every package and exported name has a doc comment; gofmt; no open to-dos
//	words_test.go     one word for one thing, in identifiers, SQL, JSON, flags and verbs
//	imports_test.go   who may import whom, and what a small program links
//	clock_test.go     who owns the clock and randomness
//	ids_test.go       each id in a comment, a name or a table has its row in docs/reference
//	features_test.go  docs/reference/spec.md is what features.txt and the labels of the tests say
//	text_test.go      go.mod, CHANGELOG, links in Markdown, the README's example, traces of a workplace
//
// To change a law, change its table; an exception gets a line with its reason.
package tidy
