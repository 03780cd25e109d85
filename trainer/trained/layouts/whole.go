package layouts

// Hub is a copy of the model's folder with what was trained in it.
var Hub = Layout{Name: "hub", Form: Whole, Model: true, Values: true, Help: "a copy of the model's folder with what was trained in it, which\n" +
	"diffusers or transformers load: parameters of the model itself, or\n" +
	"an adapter folded in (W + scale x B A, in fp32). Weights keep their\n" +
	"names, files and types; --dtype f32 keeps trained ones in fp32"}

// Merged is Hub of adapters.
var Merged = Layout{Name: "merged", Form: Whole, Model: true, Help: "the same, of adapters"}
