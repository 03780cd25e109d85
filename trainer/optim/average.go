package optim

// An Average of weights follows them at a distance (EMA):
//
//	every step t:   if (t+1) is a multiple of Every:  average += (1 - decay(t)) (weights - average)
//
// flow_grpo keeps one for evaluation and checkpoints, DiffusionNFT samples from
// one, its old policy.
type Average struct {
	Pace
	Weights []float64
}

// NewAverage starts at the weights.
func NewAverage(o Options, weights []float64) *Average {
	return &Average{Pace: o.Pace(), Weights: append([]float64(nil), weights...)}
}

// Step follows the weights once and returns the decay of this step.
func (a *Average) Step(weights []float64) (decay float64) {
	decay, due := a.Next()
	if !due {
		return decay
	}
	for i, w := range weights {
		a.Weights[i] += float64((1 - decay) * (w - a.Weights[i]))
	}
	return decay
}

// A Pace says when an average moves and how much of it is kept. The weights
// themselves may lie elsewhere, on a device.
type Pace struct {
	Limit float64
	Shape Decay
	Every int
	T     int // steps done, counted whether they moved the average or not
}

// Pace is that of the average which the options ask for.
func (o Options) Pace() Pace { return Pace{Limit: o.EMA, Shape: o.EMAShape, Every: o.EMAEvery} }

// Next counts a step, and returns its decay and whether the average moves.
func (p *Pace) Next() (decay float64, due bool) {
	decay = p.Shape.At(p.Limit, p.T)
	p.T++
	return decay, p.T%max(1, p.Every) == 0
}
