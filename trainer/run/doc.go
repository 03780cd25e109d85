// Package run runs an experiment: it connects a model, rewards and the training loop, and records everything
// in a run folder from which a stopped run can resume.
//
//	result, err := run.Run(ctx, e, run.Options{Dir: "runs/maps", Backend: be})
//
// Start with Run in run.go, then iterate.go, which is one iteration. open.go connects the parts.
// modalities.go is the one place that knows which kind of model an experiment trains; everything else speaks
// to the interface model.Model (trainer/model). panel.go, score.go, compare.go and failure.go ask rewards and
// estimators; choice.go says which prompts are rolled and which samples are learned from, skip.go why an
// iteration teaches nothing. evaluate.go measures on held-out prompts, monitor.go and rollback.go watch the
// numbers and go back. checkpoint.go is what a checkpoint holds, lines.go what is written about an iteration
// (its types are trainer/ledger's), ranks.go trains on several devices.
//
// All that is drawn has coordinates, so a state is weights, averages and counters, and a run that resumes
// writes the bytes of one that never stopped. What depends on the clock goes to timing.jsonl alone.
package run
