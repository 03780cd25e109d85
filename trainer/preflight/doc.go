// Package preflight holds an experiment against the files that it names, before anything is computed: prompts and
// their pictures, the settings and headers of the model's folder, what rewards can read. No weight is read.
//
//	notes, err := preflight.Check(e, cpu.NewDry(cpu.Options{Path: path}))
//
// The error lists all mistakes, each with its place in the experiment's file, in the form of experiment.Parse. darkroom
// plan, train and ablate begin with Check, so that a plan refuses whatever a run would refuse.
//
// Start with Check. prompts.go reads lists of prompts, rewards.go compares rewards with prompts and pictures; the
// model's folder is inspected by its modality (model.Modality).
package preflight
