package kerneltest

// families are the conformance rows, one file a family of operations.
var families = []func() []Case{
	normals,
	norms,
	groupNorms,
	softmaxes,
	draws,
	embeddings,
	elementwise,
	reductions,
	copies,
	pieces,
	training,
	convs,
	products,
	pairs,
	attentions,
	ropes,
}

// Sizes are the lengths at which loops go wrong.
var Sizes = []int{0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025}
