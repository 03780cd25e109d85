package judge

import (
	"cmp"
	"slices"
)

// Card: a Swiss tournament, for judges whose calls cost much. In each round every item meets one that it has not met
// and whose points are nearest, so that n items and r rounds take n·r/2 comparisons in place of n(n-1)/2. Who meets
// strong items has fewer points for the same strength, so the reward is no share of points but what it estimates: the
// share that the item would have of a whole tournament, by strengths π after Bradley and Terry (1952),
//
//	rate of i = 1/(n-1) · Σ over j of π_i / (π_i + π_j)
//
// where π are the likeliest ones with half a lost and half a won comparison of everyone against strength 1, which
// keeps who won all of them finite.
//
// Invariants (tests): rates have the mean 1/2; no two items meet twice; with a judge of one mind the order of rates is
// that of the whole tournament once there are as many rounds.

// prior is how many comparisons everyone is taken to have won, and lost, against strength 1.
const prior = 0.5

// A swiss tournament is which items have met, and their points.
type swiss struct {
	*tally
	met map[[2]int]bool
	won [][]float64 // won[i][j]: points of i against j
}

func newSwiss(n int) *swiss {
	s := &swiss{newTally(n), map[[2]int]bool{}, make([][]float64, n)}
	for i := range s.won {
		s.won[i] = make([]float64, n)
	}
	return s
}

// round are the pairs of the next round among items: of those whose points are highest the first meets the nearest one
// that it has not met. Of equals the first item is first.
func (s *swiss) round(items []int) [][2]int {
	left := slices.Clone(items)
	slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(s.rate(b), s.rate(a)) })
	var pairs [][2]int
	for len(left) > 1 {
		a := left[0]
		left = left[1:]
		k := slices.IndexFunc(left, func(b int) bool { return !s.met[[2]int{min(a, b), max(a, b)}] })
		if k < 0 {
			continue // has met everyone that is left, and waits
		}
		b := left[k]
		left = slices.Delete(left, k, k+1)
		a, b = min(a, b), max(a, b)
		s.met[[2]int{a, b}] = true
		pairs = append(pairs, [2]int{a, b})
	}
	return pairs
}

// count is tally's, and keeps who won against whom.
func (s *swiss) count(c Comparison, winner int) {
	s.tally.count(c, winner)
	a, b := 0.5, 0.5
	if winner == 1 {
		a, b = 1, 0
	} else if winner == 2 {
		a, b = 0, 1
	}
	s.won[c.First][c.Second] += a
	s.won[c.Second][c.First] += b
}

// rates are what items would have of a whole tournament, rounded as win rates are.
func (s *swiss) rates() []float64 {
	strength := s.strengths()
	out := make([]float64, len(strength))
	for i, p := range strength {
		sum, n := 0.0, 0.0
		for j, q := range strength {
			if i != j && s.compared[i] > 0 && s.compared[j] > 0 {
				sum, n = sum+p/(p+q), n+1
			}
		}
		out[i] = rounded(sum / max(1, n))
	}
	return out
}

// strengths are found by Hunter's iterations (2004), each of which raises the likelihood.
func (s *swiss) strengths() []float64 {
	n := len(s.won)
	now := make([]float64, n)
	for i := range now {
		now[i] = 1
	}
	for range 500 {
		next := make([]float64, n)
		for i := range n {
			wins, games := prior, 2*prior/(now[i]+1)
			for j := range n {
				wins += s.won[i][j]
				games += (s.won[i][j] + s.won[j][i]) / (now[i] + now[j])
			}
			next[i] = wins / games
		}
		now = next
	}
	return now
}
