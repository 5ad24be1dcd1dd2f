// Package wire is shared by the HTTP server and its Go client: the types of requests and responses,
// their JSON encoding, and the encoding of errors.
//
// Domain types are used directly where possible; a codec defines their encoding. Durations are
// strings with a unit, such as "90s". Bytes (args, result, checkpoint, body) are either any JSON
// value, which represents its own text, or {"$base64": "…"}. Field names and constant values are
// those of the Go types.
package wire
