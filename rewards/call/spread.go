package call

import "sync"

// Spread does f(0) to f(n-1), so many beside each other, and waits for all.
func Spread(n, atOnce int, f func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, max(1, atOnce))
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	all.Wait()
}
