package sde

// A window of a prompt's own (UniRL's per-prompt windows): random and subset windows are drawn for the prompt as
// Steps draws them for an iteration; a sliding one has one of the positions of a round, in proportion to its time
// there. Positions that hold no step are left out, since a sample that draws nowhere cannot be judged.
//
// Invariants (tests): every own window is one that Steps has in some iteration, and not empty; OwnMean is the mean over
// many draws, and OwnShares how often they hold each step.

// OwnSteps are the steps of a prompt's own window, ascending. draw gives a whole number below n, by the prompt's key.
func (o WindowOptions) OwnSteps(steps int, draw func(n int) int) []int {
	o = o.within(steps)
	if o.Kind != "sliding" {
		return o.Steps(steps, 0, draw)
	}
	places, weights := o.positions(steps)
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

// positions returns a sliding window's positions of a round with a step, and the time at each.
func (o WindowOptions) positions(steps int) (places [][]int, weights []int) {
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
	if o.Kind == "subset" { // the least of k numbers out of n that are drawn without order
		n, k := o.subset(steps)
		return k, (n - k) / (k + 1)
	}
	places, weights := o.owned(steps)
	n := 0.0
	for i, at := range places {
		w := float64(weights[i])
		n, size, first = n+w, size+float64(w*float64(len(at))), first+float64(w*float64(at[0]))
	}
	return size / max(n, 1), first / max(n, 1)
}

// OwnShares is how likely an own window is to hold each step.
func (o WindowOptions) OwnShares(steps int) []float64 {
	o = o.within(steps)
	shares := make([]float64, steps)
	if o.Kind == "subset" {
		n, k := o.subset(steps)
		for s := range int(n) {
			shares[s] = k / n
		}
		return shares
	}
	places, weights := o.owned(steps)
	n := 0.0
	for _, w := range weights {
		n += float64(w)
	}
	for i, at := range places {
		for _, s := range at {
			shares[s] += float64(weights[i]) / n
		}
	}
	return shares
}

// subset is of how many steps a subset is drawn, and how many it has.
func (o WindowOptions) subset(steps int) (of, has float64) {
	n := float64(max(0, steps-o.Drop))
	return n, float64(int(n * o.Fraction))
}

// owned are the windows that a prompt may have, none of them empty, and how likely each is beside the others.
func (o WindowOptions) owned(steps int) (places [][]int, weights []int) {
	if o.Kind == "sliding" {
		return o.positions(steps)
	}
	from, to := o.Support(steps)
	for i := range max(1, to-from+1) {
		if at := o.Steps(steps, 0, func(int) int { return i }); len(at) > 0 {
			places, weights = append(places, at), append(weights, 1)
		}
	}
	return places, weights
}
