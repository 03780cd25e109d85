package main

import "maps"

// Ops is every operation that cases may name: one table an area, each in the
// adapter file of that area.
func Ops() map[string]Op {
	all := map[string]Op{}
	for _, area := range areas {
		maps.Copy(all, area)
	}
	return all
}

var areas = []map[string]Op{
	adapterOps,
	advantageOps,
	imageOps,
	iterationOps,
	judgeOps,
	answerOps,
	methodOps,
	autoencoderOps,
	boxOps,
	clipOps,
	clipMathOps,
	clipPipelineOps,
	clipStepOps,
	combineOps,
	genEvalOps,
	replyOps,
	tesseractOps,
	textOps,
	tokenOps,
	toolCallOps,
	toolProgramOps,
	episodeOps,
	tokenizerOps,
	trainingOps,
	treeOps,
	windowOps,
	wordOps,
	denoiserOps,
	lossOps,
	noisedLossOps,
	motionOps,
	neuralOps,
	pipelineOps,
	preferenceOps,
	samplingOps,
	sftOps,
	datasetOps,
	flowOps,
	scheduleOps,
	solverOps,
	transitionOps,
	visionClipOps,
	visionLanguageOps,
	visionModelOps,
}
