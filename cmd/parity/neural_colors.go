package main

import (
	"context"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// GenEval's classifier of colours.

func genevalColor(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.OpenCLIP}))
	defer t.Close()
	pictures := show3(c, &t.Tower)
	if len(pictures.pictures) != 1 {
		failf("%d pictures: one was expected", len(pictures.pictures))
	}
	m := pictures.pictures[0]
	objects := objectsOf(c, m)
	colors := neural.Colors{Towers: t, Background: c.String("background")}
	crops := must(colors.Crops(m, objects))
	var seen []vision.Pixels
	var sizes [][]int
	for _, crop := range crops {
		x := must(t.Prepare.Apply(nil, crop, vision.ChannelsLast))
		seen = append(seen, vision.Pixels{Width: t.Prepare.Size, Height: t.Prepare.Size, RGB: x})
		sizes = append(sizes, []int{crop.Width, crop.Height})
	}
	c.Put("pixel_values", pixelArray(seen))
	classes := must(colors.Classifier(ctx, c.String("classname")))
	flipped := Array{Shape: []int{len(classes[0]), len(classes)}}
	for i := range classes[0] {
		for _, v := range classes {
			flipped.Data = append(flipped.Data, v[i])
		}
	}
	c.Put("classifier", flipped)
	answers := must(colors.Of(ctx, m, c.String("classname"), objects))
	var names []string
	var logits [][]float64
	for _, a := range answers {
		names, logits = append(names, a.Name), append(logits, a.Logits)
	}
	c.Put("logits", table(logits), "scores", map[string]any{"colors": names, "crop_sizes": sizes})
}

// objectsOf reads a case's boxes and the files of its masks.
func objectsOf(c *Case, m *vision.Image) []neural.Object {
	boxes := c.Array("boxes")
	masks, ok := c.Raw("masks").([]any)
	if len(boxes.Shape) != 2 || boxes.Shape[1] < 4 || !ok || len(masks) != boxes.Shape[0] || len(masks) == 0 {
		failf("boxes %v and %d masks", boxes.Shape, len(masks))
	}
	var objects []neural.Object
	for i, mask := range masks {
		o := neural.Object{Box: [4]float64(boxes.Data[i*boxes.Shape[1]:])}
		if name, ok := mask.(string); ok {
			drawn := must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
			if drawn.Width != m.Width || drawn.Height != m.Height {
				failf("%s has another size than the picture", name)
			}
			o.Mask = make([]bool, len(drawn.Pix)/3)
			for at := range o.Mask {
				o.Mask[at] = drawn.Pix[3*at] > 0
			}
		}
		objects = append(objects, o)
	}
	return objects
}
