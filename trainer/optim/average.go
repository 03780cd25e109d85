package optim

// An average of weights follows them at a distance (EMA):
//
//	every step t:   if (t+1) is a multiple of Every:  average += (1 - decay(t)) (weights - average)
//
// flow_grpo keeps one for evaluation and checkpoints, DiffusionNFT samples from one, its old policy.

// A Pace says when an average moves and how much of it is kept. The weights themselves are a Shadow's.
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
