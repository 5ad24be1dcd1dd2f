package sqlstore

// reader answers questions about what is stored, on snapshots.
type reader struct {
	core  *core
	gates *gates
	hub   *hub
}
