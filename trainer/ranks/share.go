package ranks

// Share is a rank's share of n things: a run of consecutive ones, so that a rank's sums are sums over
// its things in their order. Shares differ by one at most.
func Share(rank, ranks, n int) (lo, hi int) { return rank * n / ranks, (rank + 1) * n / ranks }
