package sqlstore

// gates is what a process knows for the gates of all queues: its throttlers, the cursors of their
// scans, and values that it has read or computed a moment ago. Safe for concurrent use.
type gates struct {
	throttlers throttlers
	cursors    scanCursors
	breakers   memo[string, knownBreaker] // queue → its setting, a second old at most
	starting   memo[string, bool]         // queue → whether this process's last claim has started jobs of it
}
