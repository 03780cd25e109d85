package diffusion

// FLUX packs latents [C, H, W] into tokens of 2 x 2 patches: element c·4 + 2·dy + dx of token
// (i, j). A token's place is (0, i, j).
//
// Invariant (test): unpacking what was packed is the identity.

// Pack is the tokens of one picture's latents.
func Pack(latents []float64, channels, height, width int) (tokens []float64, places [][3]int) {
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
	return tokens, places
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
