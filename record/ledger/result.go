package ledger

// How a run ended.
const (
	Finished    = "finished"
	Stopped     = "stopped by a monitor"
	Interrupted = "interrupted"
	UnderWay    = "under way" // it has not ended, or was killed
)

// Result is result.json. A run that is under way has one, too.
type Result struct {
	Status     string            `json:"status"`
	Why        string            `json:"why,omitempty"`
	Iterations int               `json:"iterations"`
	HeldOut    map[string]Gain   `json:"heldout"`
	Rewards    map[string]string `json:"rewards"` // "trained" or "gold"
	// Guided is the same under Guidance, where it was measured.
	Guidance float64         `json:"guidance,omitempty"`
	Guided   map[string]Gain `json:"guided,omitempty"`
}

// Gain is a held-out measure before training and after. A missing measure is nil.
type Gain struct {
	Before    *Measure `json:"before,omitempty"`
	After     *Measure `json:"after,omitempty"`
	Iteration int      `json:"iteration,omitempty"` // that After was measured after
}

// Known reports whether both were measured, so that there is a gain.
func (g Gain) Known() bool { return g.Before != nil && g.After != nil }
