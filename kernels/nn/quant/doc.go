// Package quant reads and writes compressed weights: bitsandbytes' 4 and 8 bits, FP8 as ComfyUI, musubi-tuner, torchao
// and DeepSeek save it, INT8 and INT4, and the blocks of GGUF files.
//
//	w := quant.Bits4{Table: quant.NF4(), Codes: packed, Absmax: absmax, Block: 64}
//	w.Unpack(row, 3*columns) // the fourth row, in float32
//
// One rule serves all formats: a value is unpacked to float32 by one product (by two products and a difference where a
// GGUF block has a minimum), and rounded once to the precision of the weight. No multiply-add is fused, and nothing is
// rounded in between, so that every machine and every kernel has the same bits.
//
// Start at weight.go. A format is one file: bits4.go, int8.go, float8.go, gguf.go; each has the slow obvious unpacking
// that kernels are compared with, and the quantiser that writes the same bytes as the package it is named after.
//
// Invariant (tests): values and bytes equal those of the packages named above, bit for bit.
package quant
