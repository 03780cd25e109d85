package ledger

// How a run ended.
const (
	Finished    = "finished"
	Stopped     = "stopped by a monitor"
	Interrupted = "interrupted"
)

// Result is result.json.
type Result struct {
	Status     string            `json:"status"`
	Why        string            `json:"why,omitempty"`
	Iterations int               `json:"iterations"`
	HeldOut    map[string]Gain   `json:"heldout"`
	Rewards    map[string]string `json:"rewards"` // "trained" or "gold"
	// Guided is the same under Guidance, where it was measured.
	Guidance float64           `json:"guidance,omitempty"`
	Guided   map[string]Guided `json:"guided,omitempty"`
}

// Gain is a held-out measure before and after.
type Gain struct {
	Before Measure `json:"before"`
	After  Measure `json:"after"`
}

// Guided is a held-out measure under guidance before, and after a run that came to its end.
type Guided struct {
	Before Measure  `json:"before"`
	After  *Measure `json:"after,omitempty"`
}
