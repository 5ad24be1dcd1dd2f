package sojourn

// Reasons that the rules set.
const (
	ReasonLeaseLost   = "lease_lost"
	ReasonTimeout     = "timeout"
	ReasonRunTimeout  = "run_timeout"
	ReasonBeat        = "beat"
	ReasonDeadline    = "deadline"
	ReasonKeyConflict = "key_conflict"
	ReasonUndecodable = "undecodable"
	ReasonPanic       = "panic"
	ReasonRolledBack  = "rolled_back" // the handler returned nil, but the transaction of its FinishTx was not committed
)
