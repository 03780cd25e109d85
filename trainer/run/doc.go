// Package run runs an experiment: it connects a model, rewards and the training loop, and records everything
// in a run folder from which a stopped run can resume.
//
//	result, err := run.Run(ctx, e, run.Options{Dir: "runs/maps", Backend: be})
//
// Start with Run in run.go, then iterate.go, which is one iteration. An iteration passes values:
//
//	prompts -> samples -> scores -> advantages -> report -> line
//
// A loop is made of parts. Each is a struct with its own state, in a file of its name:
//
//	rewardSet    rewards.go      the rewards; requests.go asks them during a roll, failures.go counts failures
//	selection    selection.go    prompts that are rolled, samples that are learned from; pool.go
//	evaluation   evaluation.go   measures of held-out prompts; sheet.go draws them
//	monitors     monitors.go     rules, first values, best evaluations; alerts, rollbacks
//	checkpoints  checkpoint.go   the checkpoints of the folder, and each part's state in them
//	record       record.go       the files that are appended to
//	inputs       manifest.go     settings, model, prompts and pictures, compared with those that the run was begun with
//	clock        clock.go        seconds of parts and of the run
//	rollout      rollout.go      samples and scores of one iteration; it ends with the iteration
//	iteration    iterate.go     one iteration's settings, with the key of its draws
//	loop         run.go         these, the trainer, the stage under way and the attempt; open.go builds it
//
// open.go is the one table of kinds of models; everything else speaks to the interface model.Model
// (trainer/model). fleet.go shares work with other processes, and has their side. Stages (run.go) and rollbacks
// (monitors.go) change how a run goes on.
//
// All that is drawn has coordinates, so a state is weights, averages and counters, and a run that resumes
// writes the bytes of one that never stopped. Numbers that depend on the clock go to timing.jsonl alone.
package run
