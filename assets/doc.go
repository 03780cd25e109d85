// Package assets holds the models that are part of the program, each made by the
// recipe of its name (`darkroom pretrain assets/tiny-sd3.toml`):
//
//	tiny-sd3      a StableDiffusion3Pipeline that draws scenes of 64 x 64 pixels
//	tiny-clip     a CLIPModel that tells such scenes apart, with a head that ranks
//	              them as drawn above damaged
//	tiny-vlm      a Qwen2.5-VL that answers questions about tables of cards, and may look closer
//	tiny-kontext  a FluxKontextPipeline that changes scenes of 32 x 32 pixels, through tiny-sd3's autoencoder
//	tiny-mask2former
//	              a Mask2Former that finds shapes and letters in such scenes
//	tiny-wan      a WanImageToVideoPipeline that makes things move in clips of 32 x 32 pixels
//	tiny-wan-64   another one for clips of nine frames of 64 x 64 pixels, whose things may turn half way
//	tiny-wan-64-noisy
//	              the same one after a phase with wrong captions, through its autoencoder
//
// They are read as any model is, from a folder: Folder writes one where the user's
// caches are, once for each version of its content.
package assets
