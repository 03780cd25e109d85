// Package dino is the vision transformers that DINO (Caron et al., 2021) and DINOv2 (Oquab et
// al., 2023) trained without labels, with the parameter names of the hub's folders (ViTModel,
// Dinov2Model): how alike two pictures are in what they show.
//
//	t, err := dino.Open("dino-vitb16", dino.Options{Device: device})
//	vectors, err := t.Images(ctx, pictures)
//
// Start with Open in open.go; network.go is the network, config.go its settings, positions.go
// what happens to pictures of another size. A picture's vector is its class token after the
// last norm. Pictures are [B, H, W, 3], channels last.
package dino
