// Package scorers has rewards that are one ONNX file: a scorer, a classifier, a detector, a face network.
//
//	[[reward]]
//	name = "onnx"
//	path = "scorer.onnx"
//	onnx = {preset = "nsfw", index = 1}
//
// Start at onnx.go, the reward. input.go makes a network's input of a picture, boxes.go boxes of its output. The
// network runs on the CPU, with the same bits on every machine (package vision/onnx).
package scorers
