// Package charttest checks the Helm chart, the Dockerfile and the compose file of a release with
// the libraries of Helm, Kubernetes, BuildKit and Compose. It is a module of its own, so that
// nothing else compiles them: make release-chart.
package charttest
