// Package wire is what the HTTP server and its Go client have in common: the types of requests and
// answers, how they look as JSON, and how errors travel.
//
// The domain's own types are used as they are wherever they can be; a codec gives them their form.
// Durations are strings with a unit, such as "90s". Bytes (args, result, checkpoint, body) are any
// JSON value, which then stands for its own text, or {"$base64": "…"}. The field names and the
// value of every constant are those of the Go types.
package wire
