// Package wire is shared by the HTTP server and its Go client: the types of requests and responses,
// their JSON encoding, and the encoding of errors.
//
// Domain types are used directly where possible; package jsonform defines their encoding.
package wire
