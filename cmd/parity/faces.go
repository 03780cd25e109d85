package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/faces"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Faces: their alignment, their vectors, and the network of the vectors.

var faceOps = map[string]Op{
	"eyes.face_matrix":     faceMatrix,
	"eyes.face_crop":       faceCrop,
	"eyes.face_similarity": faceSimilarity,
	"eyes.iresnet":         onDevice(faceNetwork),
	"eyes.iresnet_full":    onDevice(faceNetworkByRule),
}

func landmarksOf(c *Case) (l faces.Landmarks) {
	v := c.Floats("landmarks")
	if len(v) != 10 {
		failf("%d numbers of five points", len(v))
	}
	for i := range l {
		l[i] = faces.Point{X: v[2*i], Y: v[2*i+1]}
	}
	return l
}

func faceMatrix(c *Case) {
	m := faces.Matrix(landmarksOf(c), c.Int("size"))
	c.Put("matrix", Array{Shape: []int{2, 3}, Data: m[:]})
}

// faceCrop puts every fourth pixel of every fourth row, and the sum of all.
func faceCrop(c *Case) {
	m := faces.Align(caseImage(c, "faces/"+c.String("image")), landmarksOf(c), c.Int("size"))
	crop, sum := Array{Shape: []int{(m.Height + 3) / 4, (m.Width + 3) / 4, 3}}, 0.0
	for i, v := range m.Pix {
		sum += float64(v)
		if x, y := i/3%m.Width, i/3/m.Width; x%4 == 0 && y%4 == 0 {
			crop.Data = append(crop.Data, float64(v))
		}
	}
	c.Put("crop", crop, "sum", sum)
}

func faceSimilarity(c *Case) {
	wide := c.Array("a").Shape[1]
	rows := func(name string) [][]float64 { return slices.Collect(slices.Chunk(c.Floats(name), wide)) }
	added := func(a, b []float64) []float64 { return eachAt(a, func(i int, v float64) float64 { return v + b[i] }) }
	a, b, af, bf := rows("a"), rows("b"), rows("a_flipped"), rows("b_flipped")
	plain := times(len(a), func(i int) float64 { return must(faces.Cosine(a[i], b[i])) })
	flipped := times(len(a), func(i int) float64 { return must(faces.Cosine(added(a[i], af[i]), added(b[i], bf[i]))) })
	c.Put("cosine", plain, "cosine_flip", flipped, "distance_flip", each(flipped, func(v float64) float64 { return 2 - 2*v }))
}

// faceNetwork puts vectors of aligned faces, and the gradient of each face's cosine with the next one, at its pixels.
func faceNetwork(ctx context.Context, c *Case, d *features.Device) {
	e := must(faces.OpenIResNet(c.Dir(), d))
	defer e.Close()
	pictures := caseImages(c)
	prepared := each(pictures, func(m *vision.Image) []float32 { return must(e.Prepare.Apply(nil, m, vision.ChannelsLast)) })
	side := e.Prepare.Size
	agrees(c, "in.pixel_values", everyNth(prepared, side, 8))
	vectors := must(e.Vectors(ctx, prepared))
	mirrored := each(prepared, func(x []float32) []float32 {
		out := make([]float32, 0, len(x))
		for y := range side {
			for x0 := side - 1; x0 >= 0; x0-- {
				out = append(out, x[3*(y*side+x0):][:3]...)
			}
		}
		return out
	})
	c.Put("out.embedding", table(vectors), "out.embedding_flipped", table(must(e.Vectors(ctx, mirrored))))
	pairs := len(vectors) - 1
	cosines := times(pairs, func(i int) float64 { return must(faces.Cosine(vectors[i], vectors[i+1])) })
	c.Put("out.cosine", Array{[]int{pairs}, cosines})
	grads := must(e.Pull(ctx, prepared, func(from int, v [][]float64) ([][]float64, error) {
		return eachAt(v, func(i int, row []float64) []float64 {
			if from+i == pairs { // nothing follows it
				return make([]float64, len(row))
			}
			return faces.CosineSlope(row, vectors[from+i+1])
		}), nil
	}))
	norms := each(grads, func(g []float32) float64 {
		sum := 0.0
		for _, v := range g {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	})
	c.Put("out.grad_pixel_values", everyNth(grads[:1], side, 7), "out.grad_norm", Array{[]int{len(norms)}, norms})
}

// everyNth is every step-th row and column of pictures, channels first.
func everyNth(pictures [][]float32, side, step int) Array {
	n := (side + step - 1) / step
	a := Array{Shape: []int{len(pictures), 3, n, n}}
	for _, x := range pictures {
		for ch := range 3 {
			for y := 0; y < side; y += step {
				for x0 := 0; x0 < side; x0 += step {
					a.Data = append(a.Data, float64(x[3*(y*side+x0)+ch]))
				}
			}
		}
	}
	return a
}

var iresnets = map[string][4]int{"iresnet18": {2, 2, 2, 2}, "iresnet34": {3, 4, 6, 3}, "iresnet50": {3, 4, 14, 3}, "iresnet100": {3, 13, 30, 3}, "iresnet200": {6, 26, 60, 6}}

// faceNetworkByRule is a network of full size, whose weights are a rule's.
func faceNetworkByRule(ctx context.Context, c *Case, d *features.Device) {
	blocks, ok := iresnets[c.String("network")]
	if !ok {
		failf("there is no %s", c.String("network"))
	}
	src := weightsByRule{names: stateOf(blocks), salt: uint64(c.Int("salt")), at: map[string]int{}}
	for k, s := range src.names {
		src.at[s.name] = k
	}
	e := must(faces.LoadIResNet(src, d))
	defer e.Close()
	first, side := src.uniform(3*112*112, len(src.names)), 112
	x := make([]float32, len(first))
	for ch := range 3 {
		for i := range side * side {
			x[3*i+ch] = float32(2 * first[ch*side*side+i])
		}
	}
	v := must(e.Vectors(ctx, [][]float32{x}))[0]
	sum := 0.0
	kept := Array{}
	for i, f := range v {
		sum += f * f
		if i%c.Int("every") == 0 {
			kept.Data = append(kept.Data, f)
		}
	}
	kept.Shape = []int{len(kept.Data)}
	c.Put("embedding", kept, "norm", math.Sqrt(sum))
}

// stateTensor is a tensor of a state dict.
type stateTensor struct {
	name  string
	shape []int
}

// stateOf is the state dict of an IResNet, in the order of its modules.
func stateOf(blocks [4]int) (all []stateTensor) {
	add := func(name string, shape ...int) { all = append(all, stateTensor{name, shape}) }
	norm := func(name string, n int) {
		for _, end := range []string{".weight", ".bias", ".running_mean", ".running_var"} {
			add(name+end, n)
		}
	}
	add("conv1.weight", 64, 3, 3, 3)
	norm("bn1", 64)
	add("prelu.weight", 64)
	in := 64
	for k, n := range blocks {
		out := 64 << k
		for i := range n {
			at := fmt.Sprintf("layer%d.%d.", k+1, i)
			norm(at+"bn1", in)
			add(at+"conv1.weight", out, in, 3, 3)
			norm(at+"bn2", out)
			add(at+"prelu.weight", out)
			add(at+"conv2.weight", out, out, 3, 3)
			norm(at+"bn3", out)
			if i == 0 {
				add(at+"downsample.0.weight", out, in, 1, 1)
				norm(at+"downsample.1", out)
			}
			in = out
		}
	}
	norm("bn2", 512)
	add("fc.weight", 512, 512*7*7)
	add("fc.bias", 512)
	norm("features", 512)
	return all
}

// weightsByRule is a state dict whose values are a rule's of their places.
type weightsByRule struct {
	names []stateTensor
	at    map[string]int
	salt  uint64
}

func (r weightsByRule) Names() []string {
	return each(r.names, func(s stateTensor) string { return s.name })
}

func (r weightsByRule) uniform(n, number int) []float64 {
	return times(n, func(i int) float64 {
		return float64(uint32(uint64(i)*2654435761+(r.salt+uint64(number))*40503))/(1<<32) - 0.5
	})
}

// Tensor makes one of the values.
func (r weightsByRule) Tensor(name string) (safetensors.Tensor, error) {
	k, ok := r.at[name]
	if !ok {
		return safetensors.Tensor{}, &safetensors.Error{Tensor: name, Problem: "not there"}
	}
	shape := r.names[k].shape
	n := 1
	for _, s := range shape {
		n *= s
	}
	base, by := 0.0, 0.2
	switch {
	case len(shape) > 1:
		by = math.Sqrt(12 / float64(n/shape[0]))
	case strings.Contains(name, "prelu"):
		base = 0.25
	case strings.HasSuffix(name, ".running_var"):
		base, by = 1, 1
	case strings.HasSuffix(name, ".weight"):
		base, by = 1, 0.4
	}
	return safetensors.FromF32(name, slices.Clone(shape), each(r.uniform(n, k), func(u float64) float32 { return float32(base + float64(by*u)) })), nil
}
