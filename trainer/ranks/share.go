package ranks

import "sync"

// Share is a rank's share of n things: a run of consecutive ones, so that a rank's sums are sums over
// its things in their order. Shares differ by one at most.
func Share(rank, ranks, n int) (lo, hi int) { return rank * n / ranks, (rank + 1) * n / ranks }

// Each calls f for every rank at once, and returns when all are done, with the first rank's error. What
// a rank panics with, as a device that fails does, goes on in the caller.
func Each(ranks int, f func(rank int) error) error {
	if ranks == 1 {
		return f(0)
	}
	errs, panics := make([]error, ranks), make([]any, ranks)
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			defer func() { panics[r] = recover() }()
			errs[r] = f(r)
		})
	}
	all.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
