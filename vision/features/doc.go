// Package features runs networks that turn pictures into vectors, which scores are made of:
// in batches, and backwards, from gradients at the vectors to gradients at the pictures.
//
//	d := features.On(pool, features.F32)
//	t := &features.Tower{Device: d, Prepare: vision.CLIPPillow(224), Forward: network, Width: 768}
//	vectors, err := t.Images(ctx, pictures)
//	grads, err := t.PullPixels(ctx, pixels, func(from int, v [][]float64) ([][]float64, error) { ... })
//
// Start with Tower in tower.go. Device says where and how exactly is computed, folder.go
// reads what folders say of preprocessing. Packages clip and dino have the networks.
//
// Vectors are float64 on the host: they are small, and what is made of them is computed once,
// the same way with and without gradients. Prepared pictures are [Size, Size, 3], channels last.
package features
