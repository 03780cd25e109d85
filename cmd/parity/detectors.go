package main

import (
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
)

var detectorOps = map[string]Op{
	"eyes.cv_resize": opencvResize,
}

func opencvResize(c *Case) {
	m, size := caseImage(c, "ocr/"+c.String("image")), c.Ints("size")
	if len(size) != 2 {
		failf("a size of %d numbers", len(size))
	}
	r := must(m.ResizeOpenCV(size[0], size[1]))
	c.Put("pixels", Array{[]int{r.Height, r.Width, 3}, to[float64](r.Pix)})
}

// caseImage is a picture of a case's folder.
func caseImage(c *Case, name string) *vision.Image {
	return must(vision.Open(must(safetensors.Locate(c.Dir(), name)), vision.Limits{}))
}
