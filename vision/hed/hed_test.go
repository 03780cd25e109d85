package hed

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

// tensors are a file's in memory.
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
		x[i] = float32(math.Mod(float64((i+1)*(len(s)+3))*0.618034, 1) - 0.4)
	}
	s[name] = safetensors.FromF32(name, shape, x)
}

// small has blocks of two to four channels.
func small() tensors {
	s, in := tensors{}, 3
	for i, convs := range []int{2, 2, 3, 3, 3} {
		out := 2 + i%3
		for k := range convs {
			name := fmt.Sprintf("block%d_conv%d", i+1, k+1)
			s.add(name+".kernel", 3, 3, in, out)
			s.add(name+".bias", out)
			in = out
		}
		s.add(fmt.Sprintf("dsn%d.kernel", i+1), 1, 1, in, 1)
		s.add(fmt.Sprintf("dsn%d.bias", i+1), 1)
	}
	s.add("fuse.kernel", 1, 1, 5, 1)
	s.add("fuse.bias", 1)
	return s
}

func (s tensors) of(t *testing.T, name string) []float32 {
	x, err := s[name].Float32(nil)
	if err != nil || len(x) == 0 {
		t.Fatalf("%s: %v", name, err)
	}
	return x
}

// conv is a convolution of [h, w, in] by a kernel of Keras, in float64.
func (s tensors) conv(t *testing.T, x []float64, h, w int, name string) []float64 {
	shape, kernel, bias := s[name+".kernel"].Shape, s.of(t, name+".kernel"), s.of(t, name+".bias")
	side, in, out := shape[0], shape[2], shape[3]
	y := make([]float64, h*w*out)
	for i := range y {
		row, col, o := i/out/w, i/out%w, i%out
		y[i] = float64(bias[o])
		for k := range side * side * in {
			r, c := row+k/in/side-side/2, col+k/in%side-side/2
			if r >= 0 && c >= 0 && r < h && c < w {
				y[i] += float64(kernel[k*out+o]) * x[(r*w+c)*in+k%in]
			}
		}
	}
	return y
}

// TestMaps: the maps of a picture with odd sides are those of the layers in float64.
func TestMaps(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	d, src := features.On(tensor.NewPool(be), features.F32), small()
	n, err := Load(src, d)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const width, height = 13, 9
	m := vision.New(width, height)
	var x []float64
	for i := range m.Pix {
		m.Pix[i] = uint8(i * i * 7)
	}
	for i := range m.Pix {
		x = append(x, float64(m.Pix[i/3*3+2-i%3])-[]float64{104.00699, 116.66877, 122.67892}[i%3])
	}
	got, err := n.Maps(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	h, w := height, width
	fused := make([]float64, width*height)
	for i, convs := range []int{2, 2, 3, 3, 3} {
		channels := len(x) / (h * w)
		if i > 0 {
			ph, pw := (h+1)/2, (w+1)/2
			pooled := make([]float64, ph*pw*channels)
			for k := range pooled {
				pooled[k] = math.Inf(-1)
			}
			for k, v := range x {
				at := (k/channels/w/2*pw+k/channels%w/2)*channels + k%channels
				pooled[at] = max(pooled[at], v)
			}
			x, h, w = pooled, ph, pw
		}
		for k := range convs {
			x = src.conv(t, x, h, w, fmt.Sprintf("block%d_conv%d", i+1, k+1))
			for at, v := range x {
				x[at] = max(v, 0)
			}
		}
		side := src.conv(t, x, h, w, fmt.Sprintf("dsn%d", i+1))
		near := func(at, from, to int) (a, b int, share float64) {
			p := max((float64(at)+0.5)*float64(from)/float64(to)-0.5, 0)
			return int(p), min(int(p)+1, from-1), p - math.Floor(p)
		}
		for k := range fused {
			ya, yb, ys := near(k/width, h, height)
			xa, xb, xs := near(k%width, w, width)
			want := (1-ys)*((1-xs)*side[ya*w+xa]+xs*side[ya*w+xb]) + ys*((1-xs)*side[yb*w+xa]+xs*side[yb*w+xb])
			if v := float64(got.Sides[i][k]); math.Abs(v-want) > 1e-5*math.Max(1, math.Abs(want)) {
				t.Fatalf("side %d, pixel %d: %v; want %v", i+1, k, v, want)
			}
			fused[k] += want * float64(src.of(t, "fuse.kernel")[i])
		}
	}
	for k, v := range fused {
		want := v + float64(src.of(t, "fuse.bias")[0])
		if math.Abs(float64(got.Fused[k])-want) > 1e-5*math.Max(1, math.Abs(want)) {
			t.Fatalf("pixel %d: %v; want %v", k, got.Fused[k], want)
		}
	}
	some := Maps{Width: 3, Height: 1, Fused: []float32{-40, 0, 40}}
	if grey := some.Image().Pix; grey[0] != 0 || grey[4] != 128 || grey[8] != 255 {
		t.Errorf("grey is %v", grey)
	}
	if _, err := n.Maps(t.Context(), &vision.Image{}); err == nil {
		t.Error("an empty picture has maps")
	}
}

// TestRefused: lost tensors, a kernel of three axes, a fuse of another width.
func TestRefused(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	for want, spoil := range map[string]func(s tensors){
		"block3_conv2.bias":      func(s tensors) { delete(s, "block3_conv2.bias") },
		"height, width, in, out": func(s tensors) { s.add("block1_conv1.kernel", 3, 9, 2) },
		"fuse.weight":            func(s tensors) { s.add("fuse.kernel", 1, 1, 4, 1) },
		"block6_conv1.bias":      func(s tensors) { s.add("block6_conv1.bias", 2) },
		"block4_conv1.weight":    func(s tensors) { s.add("block4_conv1.kernel", 3, 3, 1, 2) },
	} {
		s := small()
		spoil(s)
		if n, err := Load(s, features.On(tensor.NewPool(be), features.F32)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, n, err)
		}
	}
}
