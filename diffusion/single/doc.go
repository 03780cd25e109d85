// Package single reads checkpoints that are one file: Stable Diffusion 1.5, SDXL, Stable Diffusion 3 and FLUX as their
// authors published them and as ComfyUI keeps them. Their tensors have other names than in diffusers' folders; some are
// joined, turned, or have their halves exchanged. Each part is given out by diffusers' names:
//
//	f, err := single.Open("v1-5-pruned.safetensors", single.Settings{LayersPerBlock: 2})
//	src := f.Part("unet")      // an nn.Source; nil where the file does not hold the part
//
// Start with file.go. names.go has diffusers' names for each network's tensors, as in diffusers' single_file_utils; the
// invariant is that every tensor has the bytes that diffusers gives it (test).
//
// A file has no settings and no tokenizers: they come from a folder of the same architecture.
package single
