package sde

// A window of a prompt's own (UniRL's per-prompt windows): random and subset windows are drawn for the prompt as
// Steps draws them for an iteration; a sliding one stands at one of the positions of a round, as likely as it lasts
// there. Positions that hold no step are left out, since a sample that draws nowhere cannot be judged.
//
// Invariants (tests): every own window is one that Steps has in some iteration, and not empty; OwnMean is the mean over
// many draws.

// OwnSteps are the steps of a prompt's own window, ascending. draw gives a whole number below n, by the prompt's key.
func (o WindowOptions) OwnSteps(steps int, draw func(n int) int) []int {
	o = o.within(steps)
	if o.Kind != "sliding" {
		return o.Steps(steps, 0, draw)
	}
	places, weights := o.stands(steps)
	all := 0
	for _, w := range weights {
		all += w
	}
	if all == 0 {
		return []int{}
	}
	u := draw(all)
	for i, w := range weights {
		if u < w {
			return places[i]
		}
		u -= w
	}
	return places[len(places)-1]
}

// stands are a sliding window's places of a round that hold a step, and how long it stays at each.
func (o WindowOptions) stands(steps int) (places [][]int, weights []int) {
	for _, s := range o.starts(steps) {
		if at := span(s, min(s+o.Size, steps-o.Drop)); len(at) > 0 {
			places, weights = append(places, at), append(weights, o.lasts(s, steps))
		}
	}
	return places, weights
}

// OwnMean is how many steps an own window holds, and where its first one lies, on average.
func (o WindowOptions) OwnMean(steps int) (size, first float64) {
	o = o.within(steps)
	var places [][]int
	var weights []int
	switch o.Kind {
	case "subset": // the least of k numbers out of n that are drawn without order
		n := float64(max(0, steps-o.Drop))
		k := float64(int(n * o.Fraction))
		return k, (n - k) / (k + 1)
	case "sliding":
		places, weights = o.stands(steps)
	default:
		from, to := o.Support(steps)
		for range max(1, to-from+1) {
			i := len(places)
			places, weights = append(places, o.Steps(steps, 0, func(int) int { return i })), append(weights, 1)
		}
	}
	n := 0.0
	for i, at := range places {
		if len(at) == 0 {
			continue
		}
		w := float64(weights[i])
		n, size, first = n+w, size+float64(w*float64(len(at))), first+float64(w*float64(at[0]))
	}
	return size / max(n, 1), first / max(n, 1)
}
