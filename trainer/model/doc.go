// Package model says what a run trains: the interface [Model], which a package a modality implements
// (trainer/pictures, trainer/conversations), and what models of every modality have in common. A Model has three sides:
// a [Sampler], a [Trainable] and a [Recorder].
//
// Start with Model in model.go, then Modality in modality.go, which opens one. learner.go is what of a
// network is trained, and the sets of weights that it switches between; checkpoint.go is how a checkpoint
// holds these; adapter.go puts [model.lora] on a network; weights.go says which sets an experiment needs,
// and how they follow.
//
// A further modality is one package with a Modality, and one line in trainer/run/modalities.go. Nothing of
// trainer/run, trainer/ranks or view/report knows which modality it serves.
package model
