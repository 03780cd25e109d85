package loss

// A Verdict is a loss over finished samples, and its gradient at the network's outputs.
type Verdict struct {
	Loss    float64
	Grad    [][]float64
	Metrics map[string][]float64
}
