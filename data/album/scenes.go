package album

import (
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// scenePairs is the embedded album.
const scenePairs = "embed:scene-pairs"

// drawnPairs are the captions of embed:scenes, each with the picture it asks for and one whose
// caption has a wrong attribute. Their order is random.
func drawnPairs() []Page {
	list, err := prompts.Open("embed:scenes")
	if err != nil {
		panic(err) // embedded
	}
	var pages []Page
	for i, p := range list {
		key := rng.New(78).With("pairs of scenes").Prompt(uint64(i))
		asked, err := scenes.Parse(p.Text)
		if err != nil {
			panic(err) // embedded captions are scenes
		}
		wrong, err := scenes.Parse(scenes.Corrupt(p.Text, key.With("wrong").Draw()))
		if err != nil {
			continue // two equal objects, which no scene has
		}
		pair, scores := [2]scenes.Scene{asked, wrong}, []float64{1, 0}
		if key.With("order").Draw().Intn(2) == 1 {
			pair, scores = [2]scenes.Scene{wrong, asked}, []float64{0, 1}
		}
		pages = append(pages, Page{p, scores, func(i int) (*vision.Image, error) {
			m := vision.New(scenes.Size, scenes.Size)
			copy(m.Pix, pair[i].Draw(scenes.Jitter(key.With("jitter").Sample(i).Draw())))
			return m, nil
		}})
	}
	return pages
}
