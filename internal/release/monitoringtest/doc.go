// Package monitoringtest checks the dashboard and the alerts of internal/release/deploy/monitoring
// with the parser of Prometheus, and against the metrics of real programs. It is a module of its
// own because Prometheus takes long to compile.
package monitoringtest
