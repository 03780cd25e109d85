package pipeline

import (
	"math"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// FLUX.1-Kontext (diffusers' FluxKontextPipeline): FLUX.1 whose tokens are followed by those of a
// picture, at places whose first number is 1. The picture takes the one of the sizes that the network was
// trained on whose proportions are nearest; in a folder that says "_darkroom_side", that side's square.

var kontext = Family{
	Class: "FluxKontextPipeline",
	Name:  "FLUX.1-Kontext",
	Card:  "FLUX.1 that also reads the tokens of one picture, which it changes as the prompt says.",
	Paper: "BFL et al., 2025, arXiv 2506.15742",
	Parts: flux1.Parts,
	Cases: []string{"pipe_flux_kontext"},

	Shared: true,
	File:   single.FLUX, Kohya: peft.FLUX,
	open: openKontext,
}

func openKontext(f *folder, o Options) (*architecture, error) {
	a, err := openFlux(f, o)
	if err != nil {
		return nil, err
	}
	a.pictures = pictureSpec{read: besideTokens, sources: &sourceRules{most: 1, size: KontextSize}}
	a.defaults.Guidance = 3.5
	if f.side > 0 {
		a.defaults.Height, a.defaults.Width, a.defaults.Pixels = f.side, f.side, true
		a.pictures.sources.size = func(width, height int) (w, h int) { return f.side, f.side }
	}
	return a, nil
}

// kontextSizes are widths and heights, by width.
var kontextSizes = [...][2]int{{672, 1568}, {688, 1504}, {720, 1456}, {752, 1392}, {800, 1328}, {832, 1248}, {880, 1184}, {944, 1104},
	{1024, 1024}, {1104, 944}, {1184, 880}, {1248, 832}, {1328, 800}, {1392, 752}, {1456, 720}, {1504, 688}, {1568, 672}}

// KontextSize is the size nearest in proportions; of two that are as near, the narrower.
func KontextSize(width, height int) (w, h int) {
	nearest := math.Inf(1)
	for _, s := range kontextSizes {
		if d := math.Abs(float64(width)/float64(height) - float64(s[0])/float64(s[1])); d < nearest {
			nearest, w, h = d, s[0], s[1]
		}
	}
	return w, h
}
