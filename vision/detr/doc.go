// Package detr is the parts that detectors of transformers share: attention to few places of several maps, maps
// resized on a tape, positions by sines, preprocessing for pictures of any shape, boxes.
//
//	p := detr.Places{Levels: levels, Heads: 8, Points: []int{4, 4, 4}, Refs: refs, Coordinates: 2}
//	y := p.Apply(tp, value, offsets, weights)
//
// Start with places.go. Maps are [B, H, W, C], channels last. Operations of the host have the same bits on every
// machine.
package detr
