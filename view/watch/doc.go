// Package watch serves the page of runs while they are under way: it reads their folders, which are the truth, and
// writes nothing.
//
//	s := watch.New([]string{"runs"}, watch.Options{})
//	go s.Follow(ctx)
//	err := http.Serve(listener, s)
//
// Start with Server in server.go, which finds folders and refuses requests of a stranger's page. events.go reads new
// lines and sends them to pages, metrics.go to Prometheus. The page is package report's: the page in a file is the
// same.
package watch
