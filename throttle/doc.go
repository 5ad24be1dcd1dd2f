// Package throttle is for throttlers in Go: functions that decide at each claim whether a ready job
// may start now. A store takes them by name; the setting Throttle of a queue names one. Package
// throttle/rule has throttlers that are written as CEL expressions.
package throttle
