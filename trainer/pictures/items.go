package pictures

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// What final latents become: pictures, or clips of more than one frame.

// Items decodes final latents, but those whose pictures came with them.
func (m *Model) Items(samples []trainer.Sample) (items []rewards.Item, err error) {
	finals := make([][]float64, len(samples))
	for i, s := range samples {
		finals[i] = s.Item.Final
		for _, v := range finals[i] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, kernels.NotFiniteError("the latents of sample %d of prompt %d hold numbers that are infinite or none", s.Key.Sample, s.Key.Prompt)
			}
		}
	}
	items = make([]rewards.Item, len(samples))
	for i, s := range samples {
		items[i].Image = s.Item.Image
	}
	for of, places := range sizesOf(samples) {
		at, err := shape(m.Pipeline, of.size, max(1, of.frames))
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(places, portion(at)) {
			raw, err := m.Pipeline.DecodeAll(trainer.Pick(finals, some), at)
			if err != nil {
				return nil, err
			}
			for i, x := range raw {
				if items[some[i]], err = developed(x, at, m.Pipeline.Defaults().Rate); err != nil {
					return nil, err
				}
			}
		}
	}
	for i, s := range samples {
		if items[i].Sources, err = m.sources.pictures(s.Key.Prompt); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// developed is what the autoencoder put out, as people see it.
func developed(x []float32, at pipeline.Shape, rate int) (item rewards.Item, err error) {
	if at.Frames <= 1 {
		item.Image, err = vision.FromFloats(x, at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		return item, err
	}
	item.Clip = &video.Clip{Width: at.Width, Height: at.Height, Rate: video.Rate{Num: rate, Den: 1}}
	for each := len(x) / at.Frames; len(x) > 0; x = x[each:] {
		frame, err := vision.FromFloats(x[:each], at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		if err != nil {
			return item, err
		}
		item.Clip.Frames = append(item.Clip.Frames, frame.Pix)
	}
	return item, nil
}

// measures are what a sample is developed by.
type measures struct {
	size   [2]int
	frames int
}

// sizesOf are the places of samples that are to be developed, by their measures.
func sizesOf(samples []trainer.Sample) map[measures][]int {
	places := map[measures][]int{}
	for i, s := range samples {
		if s.Item.Image != nil {
			continue
		}
		of := measures{s.Item.Size, s.Item.Frames}
		places[of] = append(places[of], i)
	}
	return places
}
