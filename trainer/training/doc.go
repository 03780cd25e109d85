// Package training runs an experiment: it joins a model's folder, rewards and the loop of package
// trainer to a folder on the disk, which says all that happened and from which a run that was
// stopped goes on.
//
//	result, err := training.Run(ctx, e, training.Options{Dir: "runs/maps", Backend: be})
//
// Start with Run in training.go. model.go opens what is trained, ask.go and score.go ask rewards and
// estimators, evaluate.go measures on held-out prompts, state.go is what a checkpoint holds, record.go
// and ledger.go the lines that are kept, result.go how a run ends, monitor.go the rules of
// [[monitor]]; objective.go and gradient.go make an iteration's objective. stage.go says what a stage
// keeps, rollback.go how a run goes back (and best.go to which evaluation), failure.go what happens
// without a score, check.go what is looked at before anything is learned; ranks.go trains on several
// devices.
//
// All that is drawn has coordinates, so a state is weights, averages and counters, and a run that
// goes on writes the bytes of one that never stopped. What depends on the clock goes to
// timing.jsonl alone.
package training
