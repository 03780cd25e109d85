package trainer

// Noised blames finished samples: it noises each one anew, and looks at what the
// network answers there. How a sample came about does not matter, so any solver
// may have made it (DiffusionNFT, AWM, RWR, DPO, fine-tuning).
type Noised struct {
	// Noise draws a time and a noise for a sample.
	Noise func(k Key) (time float64, noise []float64)
	// Mix is the noised sample: (1-t) x0 + t e for flows.
	Mix  func(x0, noise []float64, time float64) []float64
	Loss func(Recall) (Verdict, error)
}

// A Recall is what the three sets of weights answer at the noised samples.
type Recall struct {
	Final, Noise, Noised   [][]float64
	Time, Advantages       []float64
	Output, Old, Reference [][]float64
}

// Blame is Objective's.
func (o Noised) Blame(p Policy, samples []Sample, advantages []float64) (Blame, error) {
	r := Recall{Advantages: advantages}
	points := make([]Point, len(samples))
	for i, s := range samples {
		time, noise := o.Noise(s.Key)
		noised := o.Mix(s.Item.Final, noise, time)
		points[i] = Point{s.Key, noised, time}
		r.Final = append(r.Final, s.Item.Final)
		r.Noise = append(r.Noise, noise)
		r.Noised = append(r.Noised, noised)
		r.Time = append(r.Time, time)
	}
	answers, err := p.Eval(Current, points)
	if err != nil {
		return Blame{}, err
	}
	r.Output = answers.Outputs
	old, err := p.Eval(Old, points)
	if err != nil {
		return Blame{}, err
	}
	reference, err := p.Eval(Reference, points)
	if err != nil {
		return Blame{}, err
	}
	r.Old, r.Reference = old.Outputs, reference.Outputs
	v, err := o.Loss(r)
	if err != nil {
		return Blame{}, err
	}
	return Blame{Loss: v.Loss, Metrics: v.Metrics}, answers.Back(v.GradOutput)
}
