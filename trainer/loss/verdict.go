package loss

// A Walk is an objective on noised samples that goes from time to time, so that what the network puts out at a few of
// them lies in memory at once. Its sums go on where they ended: whatever is seen at once, the loss and the gradients
// have the bits of one look at all times (test).
type Walk struct {
	// Next is the gradient at the outputs of the next times: of all samples at a time, before those of the time after it.
	Next func(n Noised) (grad [][]float64, err error)
	// Verdict is the loss, after all times.
	Verdict func() Verdict
}

// A Verdict is a loss over finished samples.
type Verdict struct {
	Loss    float64
	Metrics map[string][]float64
}
