// Package outside tests the HTTP API with third-party tools. It has only tests: an independent
// validator accepts the committed OpenAPI document, a public generator creates a client from it,
// and that client takes a job through its life on a real server, where every response is validated
// against the document.
package outside
