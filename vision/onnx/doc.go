// Package onnx runs ONNX files on the engine's kernels: scorers, detectors and readers that people have as one file.
//
//	m, err := onnx.Open("scorer.onnx", onnx.Options{Backend: backend})
//	out, err := m.Run(ctx, map[string]*onnx.Tensor{"x": onnx.Floats(pixels, 1, 3, 224, 224)})
//
// Start with Open (model.go) and Run (run.go). A family of operators is a file; table.go lists them. Operators are
// those of the default domain, opsets 7 to 25.
//
// Arithmetic is the tree's own, so that an answer has the same bits on every CPU path and with any number of threads.
// Products, convolutions, softmax, activations and plain arithmetic of float32 are kernels.Backend's, in fp32. Sums
// over axes, means and statistics are float64 sums over rising indices, rounded once. Other functions are computed in
// float64 by package portable and rounded once. float16 and bfloat16 compute in float32 and round every result to
// their type. No operation has fewer bits than the file declares.
//
// The runner changes a graph in four places, each with a rule of its own (fuse.go): constants are computed once when
// the file is opened; a BatchNormalization behind a convolution with constant weights is folded into these in float64
// and rounded once; x·Sigmoid(x) and the five nodes of GELU are one function; an activation behind a convolution is
// computed with it, which changes no bit.
//
// Tensors of convolutions lie channels last in memory. Memory is freed after a value's last use and used again. A
// file is refused with the name of the node and a reason: unknown operators, shapes that do not fit, more memory or
// work than Limits allow, tensors in files outside the model's folder.
package onnx
