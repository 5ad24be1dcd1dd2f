// Package outside looks at the HTTP API as others do. It has only tests: a validator that is not
// ours accepts the committed OpenAPI document, a public generator makes a client of it, and that
// client takes a job through its life on a real server, where every answer is held against the
// document.
package outside
