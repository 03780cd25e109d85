package dino

import "github.com/darkroom-rl/darkroom/vision"

// resized are positions [1 + from², width] for a grid of to x to: the class token's stays, the
// others are resized as a picture (bicubic without anti-aliasing), as transformers does.
func resized(x []float32, from, to, width int) ([]float32, error) {
	if from == to {
		return x, nil
	}
	z, err := vision.NewRealResize(from, from, to, to, vision.Bicubic, false)
	if err != nil {
		return nil, err
	}
	grid := make([]float64, from*from*width)
	for i := range grid {
		grid[i] = float64(x[width+i])
	}
	out := append([]float32(nil), x[:width]...)
	for _, v := range z.Forward(grid, width) {
		out = append(out, float32(v))
	}
	return out, nil
}
