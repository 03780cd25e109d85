// Package watch serves the page of runs while they are under way: it reads their folders, which are the truth, and
// writes nothing.
//
//	s := watch.New([]string{"runs"}, watch.Options{})
//	go s.Follow(ctx)
//	err := http.Serve(listener, s)
//
// Start with Server in server.go. find.go looks for folders, follow.go reads their new lines, events.go sends it to
// pages, metrics.go to Prometheus, guard.go refuses requests of strangers' pages. Package report makes the page: the
// page in a file is the same.
package watch
