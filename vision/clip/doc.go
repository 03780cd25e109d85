// Package clip is CLIP's text and picture towers (Radford et al., 2021), with the parameter
// names of the hub's folders: text encoders of diffusion models, and scorers.
//
// Start with Text and Vision in network.go; towers.go opens folders and caches the vectors of texts.
// Pictures are [B, H, W, 3], channels last, normalised as the folder's preprocessor says.
package clip
