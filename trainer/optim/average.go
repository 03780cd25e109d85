package optim

// An Average of weights follows them at a distance (EMA):
//
//	every step t:   if (t+1) is a multiple of Every:  average += (1 - decay(t)) (weights - average)
//
// flow_grpo keeps one for evaluation and checkpoints, DiffusionNFT samples from
// one, its old policy.
type Average struct {
	Weights []float64
	Limit   float64
	Shape   Decay
	Every   int
	T       int // steps done, counted whether they moved the average or not
}

// NewAverage starts at the weights.
func NewAverage(o Options, weights []float64) *Average {
	return &Average{Weights: append([]float64(nil), weights...), Limit: o.EMA, Shape: o.EMAShape, Every: o.EMAEvery}
}

// Step follows the weights once and returns the decay of this step.
func (a *Average) Step(weights []float64) (decay float64) {
	decay = a.Shape.At(a.Limit, a.T)
	a.T++
	if a.T%max(1, a.Every) != 0 {
		return decay
	}
	for i, w := range weights {
		a.Weights[i] += (1 - decay) * (w - a.Weights[i])
	}
	return decay
}
