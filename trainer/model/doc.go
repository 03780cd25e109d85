// Package model describes the model of a run: the interface [Model], which a package a modality implements
// (trainer/pictures, trainer/conversations), and the common part of models of every modality. A Model has three
// sides: a [Sampler], a [Trainable] and a [Recorder].
//
// Start with Model in model.go, then Modality, which opens one. learner.go has the trained parameters of a network, the
// sets of weights that it switches between, and their form in a checkpoint; adapter.go puts [model.lora] on a network.
//
// A further modality is one package with a Modality, and one line in trainer/run/open.go. Nothing of
// trainer/run, trainer/ranks or view/report knows which modality it serves.
package model
