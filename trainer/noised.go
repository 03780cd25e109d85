package trainer

import "github.com/darkroom-rl/darkroom/trainer/loss"

// Noised blames finished samples: it noises each one anew, to x_t = (1-t) x0 + t e,
// and looks at what the network answers there. How a sample came about does not
// matter, so any solver may have made it (DiffusionNFT, AWM, DPO, fine-tuning).
type Noised struct {
	// Draw draws a time and a noise for a sample.
	Draw func(k Key) (time float64, noise []float64)
	Loss func(t loss.Noised, advantages []float64) (Verdict, error)
}

// A Verdict is a loss over finished samples, and its gradient at the outputs.
type Verdict struct {
	Loss    float64
	Grad    [][]float64
	Metrics map[string][]float64
}

// Blame is Objective's.
func (o Noised) Blame(p Policy, samples []Sample, advantages []float64) (Blame, error) {
	var t loss.Noised
	points := make([]Point, len(samples))
	for i, s := range samples {
		time, noise := o.Draw(s.Key)
		t.Clean, t.Noise, t.Time = append(t.Clean, s.Item.Final), append(t.Noise, noise), append(t.Time, time)
		points[i] = Point{s.Key, between(s.Item.Final, noise, time), time}
	}
	answers, err := p.Eval(Current, points)
	if err != nil {
		return Blame{}, err
	}
	old, err := p.Eval(Old, points)
	if err != nil {
		return Blame{}, err
	}
	reference, err := p.Eval(Reference, points)
	if err != nil {
		return Blame{}, err
	}
	t.V, t.VOld, t.VRef = answers.Outputs, old.Outputs, reference.Outputs
	v, err := o.Loss(t, advantages)
	if err != nil {
		return Blame{}, err
	}
	return Blame{Loss: v.Loss, Metrics: v.Metrics}, answers.Back(v.Grad)
}

// between is (1-t) clean + t noise.
func between(clean, noise []float64, time float64) []float64 {
	x := make([]float64, len(clean))
	for i, c := range clean {
		x[i] = (1-time)*c + time*noise[i]
	}
	return x
}
