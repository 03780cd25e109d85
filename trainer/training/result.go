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

// end writes result.json.
func (t *Training) end(status, why string) (*Result, error) {
	r := &Result{Status: status, Why: why, Iterations: t.loop.Iteration, HeldOut: map[string]Gain{}, Rewards: map[string]string{}}
	if len(t.guided) > 0 {
		if err := t.guidedEnd(r); err != nil {
			return nil, err
		}
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
