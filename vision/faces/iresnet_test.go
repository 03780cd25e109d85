package faces

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// tensors is a state dict in memory.
type tensors map[string]safetensors.Tensor

func (s tensors) Names() (all []string) {
	for name := range s {
		all = append(all, name)
	}
	return all
}

func (s tensors) Tensor(name string) (safetensors.Tensor, error) { return s[name], nil }

func (s tensors) add(name string, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		u := math.Mod(float64((i+1)*(len(s)+3))*0.618034, 1) - 0.5
		switch {
		case len(shape) > 1:
			x[i] = float32(u * math.Sqrt(12*float64(shape[0])/float64(n)))
		case strings.HasSuffix(name, ".running_var"), strings.HasSuffix(name, ".weight"):
			x[i] = float32(1 + u)
		default:
			x[i] = float32(u)
		}
	}
	s[name] = safetensors.FromF32(name, shape, x)
}

func (s tensors) norm(name string, n int) {
	for _, end := range []string{"weight", "bias", "running_mean", "running_var"} {
		s.add(name+"."+end, n)
	}
}

// small is an IResNet of few numbers, for faces of 112 pixels.
func small() tensors {
	s := tensors{}
	s.add("conv1.weight", 2, 3, 3, 3)
	s.norm("bn1", 2)
	s.add("prelu.weight", 2)
	in := 2
	for k, out := range []int{2, 3, 2, 3} {
		at := fmt.Sprintf("layer%d.0.", k+1)
		s.norm(at+"bn1", in)
		s.add(at+"conv1.weight", out, in, 3, 3)
		s.norm(at+"bn2", out)
		s.add(at+"prelu.weight", out)
		s.add(at+"conv2.weight", out, out, 3, 3)
		s.norm(at+"bn3", out)
		s.add(at+"downsample.0.weight", out, in, 1, 1)
		s.norm(at+"downsample.1", out)
		in = out
	}
	s.norm("bn2", in)
	s.add("fc.weight", 4, in*7*7)
	s.add("fc.bias", 4)
	s.norm("features", 4)
	return s
}

func device(t *testing.T) *features.Device {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return features.On(tensor.NewPool(be), features.F32)
}

// plain computes small in float64, layer by layer as upstream writes it.
type plain struct {
	tensors
	t *testing.T
}

func (p plain) of(name string) []float64 {
	x, err := p.tensors[name].Float32(nil)
	if err != nil || len(x) == 0 {
		p.t.Fatalf("%s: %v", name, err)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// maps are channels of square maps.
type maps [][]float64

func (p plain) conv(x maps, name string, stride int) maps {
	shape, w := p.tensors[name+".weight"].Shape, p.of(name+".weight")
	side, kernel := int(math.Sqrt(float64(len(x[0])))), shape[2]
	to := (side + stride - 1) / stride
	out := make(maps, shape[0])
	for o := range out {
		out[o] = make([]float64, to*to)
		for i := range out[o] {
			for c := range x {
				for k := range kernel * kernel {
					row, col := i/to*stride+k/kernel-kernel/2, i%to*stride+k%kernel-kernel/2
					if row >= 0 && col >= 0 && row < side && col < side {
						out[o][i] += w[(o*len(x)+c)*kernel*kernel+k] * x[c][row*side+col]
					}
				}
			}
		}
	}
	return out
}

func (p plain) batchNorm(x maps, name string) maps {
	w, b, mean, variance := p.of(name+".weight"), p.of(name+".bias"), p.of(name+".running_mean"), p.of(name+".running_var")
	out := make(maps, len(x))
	for c := range x {
		for _, v := range x[c] {
			out[c] = append(out[c], (v-mean[c])/math.Sqrt(variance[c]+1e-5)*w[c]+b[c])
		}
	}
	return out
}

func (p plain) prelu(x maps, name string) maps {
	slope := p.of(name + ".weight")
	for c := range x {
		for i, v := range x[c] {
			x[c][i] = max(v, 0) + slope[c]*min(v, 0)
		}
	}
	return x
}

func (p plain) vector(x maps) []float64 {
	x = p.prelu(p.batchNorm(p.conv(x, "conv1", 1), "bn1"), "prelu")
	for k := range 4 {
		at := fmt.Sprintf("layer%d.0.", k+1)
		past := p.batchNorm(p.conv(x, at+"downsample.0", 2), at+"downsample.1")
		y := p.conv(p.batchNorm(x, at+"bn1"), at+"conv1", 1)
		y = p.prelu(p.batchNorm(y, at+"bn2"), at+"prelu")
		x = p.batchNorm(p.conv(y, at+"conv2", 2), at+"bn3")
		for c := range x {
			for i := range x[c] {
				x[c][i] += past[c][i]
			}
		}
	}
	x = p.batchNorm(x, "bn2")
	w, out := p.of("fc.weight"), maps{}
	for o, sum := range p.of("fc.bias") {
		for c := range x {
			for i, v := range x[c] {
				sum += w[(o*len(x)+c)*len(x[c])+i] * v
			}
		}
		out = append(out, []float64{sum})
	}
	var v []float64
	for _, one := range p.batchNorm(out, "features") {
		v = append(v, one[0])
	}
	return v
}

// TestIResNet: the vector is that of the layers in float64, and the gradient at the pixels that of differences.
func TestIResNet(t *testing.T) {
	src := small()
	e, err := LoadIResNet(src, device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const side = 112
	x, planes := make([]float32, 3*side*side), maps{nil, nil, nil}
	for i := range x {
		x[i] = float32(math.Sin(float64(i) * 0.37))
		planes[i%3] = append(planes[i%3], float64(x[i]))
	}
	got, err := e.Vectors(t.Context(), [][]float32{x})
	if err != nil {
		t.Fatal(err)
	}
	p := plain{src, t}
	want := p.vector(planes)
	for i, w := range want {
		if math.Abs(got[0][i]-w) > 2e-5*math.Max(1, math.Abs(w)) {
			t.Errorf("number %d is %v; want %v", i, got[0][i], w)
		}
	}
	other := []float64{1, -2, 0.5, 3}
	cosine := func(v []float64) float64 {
		c, err := Cosine(v, other)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	grads, err := e.Pull(t.Context(), [][]float32{x}, func(_ int, v [][]float64) ([][]float64, error) {
		return [][]float64{CosineSlope(v[0], other)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 3*side*side/2 + 4, 3*side*side - 1} {
		old, h := planes[i%3][i/3], 1e-5
		planes[i%3][i/3] = old + h
		up := cosine(p.vector(planes))
		planes[i%3][i/3] = old - h
		down := cosine(p.vector(planes))
		planes[i%3][i/3] = old
		if d := (up - down) / (2 * h); d == 0 || math.Abs(d-float64(grads[0][i])) > 1e-7+1e-3*math.Abs(d) {
			t.Errorf("the gradient at number %d is %v; differences give %v", i, grads[0][i], d)
		}
	}
}

// TestFlip: the mirrored face's vector is added.
func TestFlip(t *testing.T) {
	e, err := LoadIResNet(small(), device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	face := vision.New(112, 112)
	for i := range face.Pix {
		face.Pix[i] = uint8(i * i / 97)
	}
	n := e.Network()
	n.Flip = true
	got, err := n.Vector(t.Context(), face, template)
	if err != nil {
		t.Fatal(err)
	}
	both, err := e.Images(t.Context(), []*vision.Image{face, mirrored(face)})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if want := both[0][i] + both[1][i]; math.Abs(v-want) > 1e-5 {
			t.Errorf("number %d is %v; want %v", i, v, want)
		}
	}
}

// TestRefusedIResNet: a file of another network, a map that is not square, faces of another size, a lost tensor.
func TestRefusedIResNet(t *testing.T) {
	for want, spoil := range map[string]func(s tensors){
		"this is no IResNet: there is no tensor layer3.0.conv1.weight": func(s tensors) { delete(s, "layer3.0.conv1.weight") },
		"this is no IResNet: conv1.weight has the shape [2]":           func(s tensors) { s.add("conv1.weight", 2) },
		"fc.weight has 20 columns; a square map":                       func(s tensors) { s.add("fc.weight", 4, 20) },
		"its input is 32 pixels wide":                                  func(s tensors) { s.add("fc.weight", 4, 3*2*2) },
		"layer2.0.bn1.running_var":                                     func(s tensors) { delete(s, "layer2.0.bn1.running_var") },
		"its parts have different lengths":                             func(s tensors) { s.add("features.bias", 7) },
		"fc.bias":                                                      func(s tensors) { s.add("fc.bias", 7) },
	} {
		s := small()
		spoil(s)
		if e, err := LoadIResNet(s, device(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, e, err)
		}
	}
}
