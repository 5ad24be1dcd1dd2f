package sqlstore

// reader answers questions about what is stored, on snapshots.
type reader struct {
	core  *core
	hub   *hub
	gates *gates
}
