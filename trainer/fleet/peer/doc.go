// Package peer carries a fleet's blobs from process to process by HTTPS, beside the server that carries its jobs.
//
//	s, err := peer.Open("127.0.0.1", 0, 8)          // a store of the last 8 blobs, which it serves
//	t := peer.NewTracker(8)                         // the trainer's: the holders of blobs
//	data, err := peer.Fetch(ctx, s.Place, name)     // a worker's
//
// Start with tracker.go: weights go from the trainer to eight workers, from these to eight others each, and so on,
// since every process serves the blobs that it has. store.go holds and serves a process's blobs, fetch.go asks
// others. Workers bring results to the trainer, which need not reach them.
package peer
