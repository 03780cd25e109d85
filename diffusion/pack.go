package diffusion

import "fmt"

// FLUX packs latents [C, H, W] into tokens of 2 x 2 patches: element c·4 + 2·dy + dx of token
// (i, j). A token's place is (0, i, j). A side that is odd has half a patch at its end, which
// no token could hold: it is refused, and the picture's size must be a multiple of 16.
//
// Invariant (test): Unpack inverts Pack.

// Pack is the tokens of one picture's latents.
func Pack(latents []float64, channels, height, width int) (tokens []float64, places [][3]int, err error) {
	if err := packable(len(latents), channels, height, width); err != nil {
		return nil, nil, fmt.Errorf("packing latents into patches: %w", err)
	}
	for i := range height / 2 {
		for j := range width / 2 {
			for c := range channels {
				for k := range 4 {
					tokens = append(tokens, latents[(c*height+2*i+k/2)*width+2*j+k%2])
				}
			}
			places = append(places, [3]int{0, i, j})
		}
	}
	return tokens, places, nil
}

// packable says whether latents of this size are whole patches.
func packable(n, channels, height, width int) error {
	switch {
	case channels < 0 || height < 0 || width < 0 || channels*height*width != n:
		return fmt.Errorf("%d numbers are not %d channels of %d x %d", n, channels, height, width)
	case height%2 != 0 || width%2 != 0:
		return fmt.Errorf("%d x %d are not whole patches of 2 x 2: both sides must be even", height, width)
	}
	return nil
}

// Unpack is the latents of tokens.
func Unpack(tokens []float64, channels, height, width int) []float64 {
	latents := make([]float64, len(tokens))
	at := 0
	for i := range height / 2 {
		for j := range width / 2 {
			for c := range channels {
				for k := range 4 {
					latents[(c*height+2*i+k/2)*width+2*j+k%2] = tokens[at]
					at++
				}
			}
		}
	}
	return latents
}
