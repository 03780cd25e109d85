// Package fleet rolls a run's samples, and computes its rewards and gradients, on other processes and machines, with
// the bytes that one process leaves.
//
//	f, err := fleet.New(fleet.Options{Hub: hub, Rules: fleet.Usual(), Local: true})
//	m, err := f.Open(setup, options, open) // a model.Model, whose rolls are shared out
//
// A job is a set of keys that belong together, and is named by its content: the sum of all that decides its bits
// (job.go). A draw is a function of coordinates, and a row's bits depend neither on other rows nor on the machine; so
// a result is a function of its job, and it does no harm that a job is done twice, late, or by somebody else. Nothing
// that is under way has to survive: who loses it does it again.
//
// Start with Fleet.Do in fleet.go, which has jobs done and gathers their results in order. scheduler.go decides which
// jobs are offered again, and when; it has neither a clock nor a goroutine of its own, so that its test drives it
// through weeks of 1,000 workers in seconds. hub.go is the interface for jobs, results and blobs: inside.go does so
// inside one process, package natsio between several. model.go makes a run's model roll by a fleet, worker.go is the
// other end. gradient.go shares gradients out. pack.go turns samples into bytes without losing a bit, points.go points
// of the network and gradients.
//
// A worker's result is trusted as far as it is checked: a share of the jobs is done here again, and one that has
// other bits ends its worker's part (results.go).
package fleet
