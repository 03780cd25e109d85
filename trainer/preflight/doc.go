// Package preflight holds an experiment against the files that it names, before anything is computed: prompts and
// their pictures, the settings and headers of the model's folder, what rewards can read. No weight is read.
//
//	notes, err := preflight.Check(e, cpu.NewDry(cpu.Options{Path: path}))
//
// The error is all that is wrong, each mistake with its place in the experiment's file, as experiment.Parse tells what
// is wrong with the file alone. darkroom plan, train and ablate begin with it, so that a plan refuses what a run
// would refuse.
//
// Start with Check. prompts.go reads lists of prompts, rewards.go compares rewards with prompts and pictures; the
// model's folder is inspected by its modality (model.Modality).
package preflight
