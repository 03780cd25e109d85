package sde

// Network is a network's output at latents, at a step of the sampler.
type Network func(x []float64, step int) []float64

// Trajectory is all that a sampler went through.
type Trajectory struct {
	States  [][]float64 // T+1
	Means   [][]float64 // of the next state, T
	LogProb []float64   // of each transition, T; 0 where nothing was drawn
	Clean   [][]float64 // predicted at each step
}

// Run samples by rows: the definition of every sampler here. It calls noise for stochastic steps.
func Run(rows []Row, start []float64, net Network, noise func(step int) []float64) Trajectory {
	t := Trajectory{States: [][]float64{start}}
	var h History
	for step, r := range rows {
		state := t.States[step]
		h.Push(state, net(state, step))
		mean := r.Mean(&h)
		var z []float64
		if r.Stochastic() {
			z = noise(step)
		}
		next := r.Draw(mean, z)
		t.States, t.Means = append(t.States, next), append(t.Means, mean)
		t.LogProb = append(t.LogProb, r.LogProb(mean, next))
		t.Clean = append(t.Clean, r.Clean.Apply(&h))
	}
	return t
}
