package loss

// Forward is the options of objectives on finished samples that are noised anew (the forward
// process): nft.go, awm.go, dpo.go, dgpo.go, flowmatch.go, direct.go.
type Forward struct {
	Times   int     `toml:"times" range:"[1,1000]" of:"noised" doc:"times that a final sample is noised to"`
	Beta    float64 `toml:"beta" range:"(0,inf)" of:"nft,dpo,dgpo" doc:"of nft, dpo and dgpo: how far the implicit policies lie apart"`
	AdvClip float64 `toml:"adv_clip" range:"(0,inf)" of:"nft,awm" doc:"of nft and awm: what advantages are cut to"`
	AdvMode string  `toml:"adv_mode" enum:"all,positive_only,negative_only,one_only,binary" of:"nft" doc:"of nft: which advantages count"`
}

// DefaultForward is DiffusionNFT's.
func DefaultForward() Forward { return Forward{Times: 1, Beta: 1, AdvClip: 5, AdvMode: "all"} }

// Noised is what objectives on noised samples look at, a row a sample.
type Noised struct {
	Clean, Noise       [][]float64
	Time               []float64
	V, VOld, VRef, EMA [][]float64
}

// target is the velocity of the clean sample.
func (n Noised) target(i, e int) float64 { return n.Noise[i][e] - n.Clean[i][e] }
