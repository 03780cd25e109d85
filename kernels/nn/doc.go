// Package nn holds layers over named parameters: names as they are on disk.
//
//	p, err := nn.New(nn.Options{Pool: pool, Math: kernels.MathBF16, Source: set})
//	b := p.Sub("transformer_blocks.0")
//	up := b.Linear("ff.net.0.proj", 64, 256, true)   // reads ff.net.0.proj.weight, .bias
//	...
//	err = p.Check()                                  // all that is missing, misshapen or left over
//	y := up.Apply(tp, x, autograd.With{Act: kernels.GELUTanh})
//
// Start with params.go: a model asks Params for its layers in its constructor, each with
// the shape that it expects; mistakes are collected, and Check reports them all at once.
// Frozen weights are packed once from storage (bf16, fp32 or fp16) and exist in no other
// form (load.go: in none, and are read anew for every product); parameters that Options.Train matches are fp32.
//
// lora.go puts adapters on layers by PEFT's rules; Adapters.On switches them, so that the
// base model is the reference policy without a second copy. lora.go folds them into the
// base and back.
//
// A linear weight is [out, in]. A convolution's is [out, KH, KW, in] here and
// [out, in, KH, KW] on disk. timestep.go is the sinusoidal embedding of time.
package nn
