package training

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
	// Guided is the start under Guidance, where it was measured.
	Guidance float64            `json:"guidance,omitempty"`
	Guided   map[string]Measure `json:"guided,omitempty"`
}

// Gain is a held-out measure before and after.
type Gain struct {
	Before Measure `json:"before"`
	After  Measure `json:"after"`
}

// end writes result.json.
func (t *Training) end(status, why string) (*Result, error) {
	r := &Result{Status: status, Why: why, Iterations: t.loop.Iteration, HeldOut: map[string]Gain{}, Rewards: map[string]string{}}
	if r.Guided = t.guided; len(r.Guided) > 0 {
		r.Guidance = t.Evaluate.Guided
	}
	for name, after := range t.latest {
		if before, ok := t.before[name]; ok {
			r.HeldOut[name] = Gain{before, after}
		}
	}
	for _, j := range t.judges {
		r.Rewards[j.name] = "gold"
		if j.train {
			r.Rewards[j.name] = "trained"
		}
	}
	if status == Interrupted && t.stands != t.loop.Iteration {
		if err := t.save(); err != nil {
			return nil, err
		}
	}
	return r, t.folder.WriteJSON("result.json", r)
}
