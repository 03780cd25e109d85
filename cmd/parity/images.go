package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/jpeg"
)

// Pictures: resizing, cropping, turning, inputs of vision towers.

var imageOps = map[string]Op{
	"image.center_crop_offset": centreCropOffset,
	"image.jpeg_size":          jpegSize,
	"image.preprocess":         imagePreprocess,
	"image.resize":             imageResize,
	"image.resize_box":         imageResize,
	"image.resize_crop":        imageResizeCrop,
	"image.resize_size":        resizeSize,
	"image.resize_tensor":      resizeTensor,
	"image.to_uint8":           toBytes,
	"vlm.resize_float":         resizeReal,
	"vlm.resize_pil":           resizePillow13,
	"vlm.resize_torchvision":   func(c *Case) { resized(c, (*vision.Image).ResizeTorch) },
	"vlm.rotate_pil":           rotatePillow,
}

func toBytes(c *Case) {
	x := c.Floats("x")
	for name, r := range map[string]vision.Range{"from_unit": vision.Unit, "from_signed": vision.Signed} {
		c.Put(name, each(x, func(v float64) int { return int(r.ToByte(float32(v))) }))
	}
}

func resizeSize(c *Case) {
	w, h, size := c.Int("width"), c.Int("height"), c.Int("size")
	sw, sh := vision.ShortestEdge(w, h, size)
	c.Put("shortest_torchvision", []int{sh, sw}, "shortest_transformers", []int{sh, sw})
	lw, lh := vision.LongestEdge(w, h, size)
	c.Put("longest_hpsv2", []int{lh, lw})
	left, top := -vision.HalfToEven.Offset(lw, size), -vision.HalfToEven.Offset(lh, size)
	c.Put("pad_hpsv2", []int{left, top, size - lw - left, size - lh - top})
}

func centreCropOffset(c *Case) {
	w, h, size := c.Int("width"), c.Int("height"), c.Int("size")
	for name, rule := range map[string]vision.Centring{"torchvision": vision.HalfToEven, "transformers": vision.Downwards} {
		c.Put(name, []int{rule.Offset(h, size), rule.Offset(w, size)})
	}
}

// pictureFile reads the picture that the input names.
func pictureFile(c *Case) *vision.Raster {
	return must(vision.OpenRaster(c.File("image"), vision.Limits{}))
}

func imageResize(c *Case) {
	r := pictureFile(c)
	z := vision.Resizing{}
	z.Filter = must(vision.FilterNamed(c.String("filter")))
	if c.Has("box") {
		b := c.Floats("box")
		if len(b) != 4 {
			failf("a box of %d numbers", len(b))
		}
		z.From = &vision.Span{X0: float32(b[0]), Y0: float32(b[1]), X1: float32(b[2]), Y1: float32(b[3])}
	}
	c.Put("tensor", rasterArray(must(z.Apply(r, c.Int("width"), c.Int("height")))))
}

func imageResizeCrop(c *Case) {
	r := pictureFile(c)
	size := c.Int("size")
	w, h := vision.ShortestEdge(r.Width, r.Height, size)
	m := must(r.RGB().Resize(w, h, vision.Bicubic))
	m = must(m.CentreCrop(size, size, vision.HalfToEven))
	c.Put("tensor", rasterArray(m.Raster()))
}

func resizeTensor(c *Case) {
	r := pictureFile(c)
	x := each(r.Pix, func(b uint8) float64 { return float64(float32(b) / 255) })
	f := must(vision.FilterNamed(c.String("filter")))
	w, h := c.Int("width"), c.Int("height")
	z := must(vision.NewRealResize(r.Width, r.Height, w, h, f, c.Bool("antialias")))
	first := channelsFirst(Array{[]int{1, h, w, r.Channels}, z.Forward(x, r.Channels)})
	c.Put("tensor", Array{first.Shape[1:], first.Data})
}

var pipelines = map[string]func(int) vision.Preprocess{
	"clip_pil": vision.CLIPPillow, "clip_torchvision": torchvision, "dino": vision.DINO,
	"hpsv2": vision.HPSv2, "open_clip": vision.OpenCLIP, "tensor": vision.CLIPDifferentiable,
}

// torchvision is transformers' CLIPImageProcessor with its present default back end.
func torchvision(size int) vision.Preprocess {
	p := vision.CLIPPillow(size)
	p.Arithmetic, p.Centring = vision.Torch8, vision.TowardZero
	return p
}

func imagePreprocess(c *Case) {
	r := pictureFile(c)
	size := c.Int("size")
	pipeline, ok := pipelines[c.String("kind")]
	if !ok {
		failf("kind %q is not known", c.String("kind"))
	}
	p := pipeline(size)
	if p.Arithmetic == vision.Pillow { // these were recorded with Pillow 12.0.0
		p.Arithmetic = vision.Pillow12
	}
	x := must(p.Apply(nil, r.RGB(), vision.ChannelsFirst))
	c.Put("tensor", Array{[]int{3, size, size}, to[float64](x)})
}

func jpegSize(c *Case) {
	r := pictureFile(c)
	m, quality := r.RGB(), c.Int("quality")
	if quality == 0 {
		quality = jpeg.DefaultQuality
	}
	file := must(jpeg.Encode(m.Pix, m.Width, m.Height, quality))
	kB := must(rewards.JPEGKilobytes(m))
	c.Put("bytes", len(file))
	c.Put("reward_ddpo_incompressibility", kB*rewards.JPEGOptions{Form: "incompressibility"}.Factor())
	c.Put("reward_ddpo_compressibility", kB*rewards.JPEGOptions{Form: "compressibility"}.Factor())
	c.Put("reward_flow_grpo_compressibility", kB*rewards.JPEGOptions{Form: "flow_grpo"}.Factor())
}

// rasterArray is [H, W] where there is one channel, else [H, W, C].
func rasterArray(r *vision.Raster) Array {
	a := Array{[]int{r.Height, r.Width, r.Channels}, make([]float64, len(r.Pix))}
	if r.Channels == 1 {
		a.Shape = a.Shape[:2]
	}
	for i, b := range r.Pix {
		a.Data[i] = float64(b)
	}
	return a
}

// pictureArray reads an input [H, W, 3] of bytes.
func pictureArray(c *Case, name string) *vision.Image {
	a := c.Array(name)
	if len(a.Shape) != 3 || a.Shape[2] != 3 || a.Shape[0] < 1 || a.Shape[1] < 1 {
		failf("%s: [H, W, 3] is needed, not %v", name, a.Shape)
	}
	m := vision.New(a.Shape[1], a.Shape[0])
	for i, v := range a.Data {
		if v != math.Trunc(v) || v < 0 || v > 255 {
			failf("%s: %v is not a byte", name, v)
		}
		m.Pix[i] = uint8(v)
	}
	return m
}

// resized answers the cases of package vlm that hold pictures as arrays.
func resized(c *Case, resize func(m *vision.Image, w, h int, f vision.Filter) (*vision.Image, error)) {
	m := pictureArray(c, "image_hwc")
	out := must(resize(m, c.Int("width"), c.Int("height"), must(vision.FilterNamed(c.String("filter")))))
	c.Put("image_hwc", rasterArray(out.Raster()))
}

func resizePillow13(c *Case) {
	resized(c, func(m *vision.Image, w, h int, f vision.Filter) (*vision.Image, error) {
		return must(vision.Resizing{Filter: f, Order: vision.Pillow13}.Apply(m.Raster(), w, h)).RGB(), nil
	})
}

func resizeReal(c *Case) {
	m := pictureArray(c, "image_hwc")
	w, h, antialias := c.Int("width"), c.Int("height"), true
	name := c.String("filter")
	if name == "bicubic_noaa" || name == "bilinear_noaa" {
		name, antialias = name[:len(name)-len("_noaa")], false
	}
	z := must(vision.NewRealResize(m.Width, m.Height, w, h, must(vision.FilterNamed(name)), antialias))
	c.Put("image_hwc", Array{[]int{h, w, 3}, z.Forward(to[float64](m.Pix), 3)})
}

func rotatePillow(c *Case) {
	c.Put("image_hwc", rasterArray(pictureArray(c, "image_hwc").Rotate(c.Float("angle")).Raster()))
}
