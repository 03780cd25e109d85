package advantage

import "fmt"

// MaxAtK rewards a sample for its addition to the best of k (PKPO; Walder and Karkhanis, 2025, the estimator
// s^(loo-1) of equation 33): over all choices of k of a group's n samples,
//
//	a_i = 1/C(n,k) Σ_{S ∋ i} ( max r(S) - max r(S\i) )
//
// Its policy gradient is that of the expected best of k, so that training for pass@k does not make
// samples alike. Only where i is the best of S is a term other than 0; with i the p-th in ascending
// order and C(j-1,k-2) choices whose second is the j-th,
//
//	a_i = 1/C(n,k) Σ_{j<p} C(j-1, k-2) (r_i - r_(j))
//
// which is computed in n² sums. The paper gives O(n log n); groups are small. A group with fewer than k samples
// teaches nothing. With k = n it is PassAtK, verl's.
//
// Where o has a scale of the group, the deviation of the advantages divides them, and with scale
// none they are the paper's.
//
// Invariants (tests): equal to the sum over all choices; none is negative, and the lowest k-1 of a
// group are 0.
func MaxAtK(o Options, k int, ids []int, rewards []float64) ([]float64, error) {
	if k < 2 {
		return nil, fmt.Errorf("estimator max-at-k with k = %d: it needs at least 2, since the best of one is its reward", k)
	}
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		if len(g) < k {
			continue
		}
		r := pick(rewards, g)
		order := ascending(r)
		share := secondShares(len(g), k)
		for p, i := range order {
			sum := 0.0
			for j := range p {
				sum += float64(share[j] * (r[i] - r[order[j]]))
			}
			out[g[i]] = sum
		}
		if d := deviation(pick(out, g), o.DDOF); o.Scale != "none" && d > 0 {
			for _, i := range g {
				out[i] /= o.divisor(d)
			}
		}
	}
	return out, nil
}

// secondShares are C(j-1, k-2)/C(n, k) for j = 1 to n: each follows from the one below it.
func secondShares(n, k int) []float64 {
	share := make([]float64, n)
	first := 1.0 // 1/C(n, k), for j = k-1
	for i := range k {
		first *= float64(i+1) / float64(n-i)
	}
	for j := k - 1; j <= n; j++ {
		share[j-1] = first
		first *= float64(j) / float64(j-k+2)
	}
	return share
}

// MaxAtKOptions are the options of PKPO's rule.
type MaxAtKOptions struct {
	K int `toml:"k" range:"[2,1e6]" doc:"of max-at-k: the best of how many samples is trained for"`
}

// MaxAtKRule is PKPO's.
var MaxAtKRule = Rule{
	Name: "max-at-k", Card: "What a sample adds to the best of k of its group: training for pass@k (PKPO).",
	Paper: "PKPO (Walder and Karkhanis, 2025)", Formula: "1/C(n,k) Σ over S of k samples, the sample among them: max r(S) - max r(S without it)", Cases: []string{"methods.adv_maxatk"},
	Company: InGroup, Scaled: true, Options: MaxAtKOptions{}, Set: func(s *Settings) { s.Scale = "none" },
	Members: func(s Settings) int { return s.K },
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) { return MaxAtK(e.Options, e.K, b.Groups, r) }),
}
