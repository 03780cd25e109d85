// Package ablate runs an experiment with every combination of some keys' values, over the same
// seeds and with the same budget, and reports each one's gain.
//
//	grid, err := ablate.Plan(base, vary, options)   // all mistakes, before anything runs
//	err = grid.Run(ctx, runner) // on one device, or side by side on several
//	table := grid.Table()
//
// Start with Plan in plan.go: Vary reads KEY=v1,v2, a Cell is a combination, with a folder for each seed. run.go runs
// the missing trials; table.go has the numbers with their intervals, page.go draws them.
//
// A cell's folder is a run's folder as darkroom train leaves it. One that is finished is not run
// again, one that was interrupted goes on, so a grid may be stopped, or grown by values and seeds.
package ablate
