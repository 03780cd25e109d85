package onnx

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// network is a file with every way of a convolution and with functions of every kind.
func network() []byte {
	l := func(names ...string) []string { return names }
	small := func(name string, dims ...int) []byte { return floatsOf(name, dims...) }
	return modelOf(17, infoIn(11, "in", 1),
		small("w1", 8, 3, 3, 3), small("b1", 8), small("tiny"), wholesOf("half", 1, 1, 2, 2), small("w2", 8, 1, 3, 3), small("w3", 4, 4, 1, 3), small("w4", 4, 5, 2, 2), small("m", 10, 6), small("s", 8), small("root2"),
		pb(5, join(pb(2, 1), pb(8, "c"), pb(4, []byte{0, 0, 0, 0x3a}))), // 2^-11
		nodeOf("Mul", l("w1", "c"), l("k1")), nodeOf("Mul", l("w2", "c"), l("k2")), nodeOf("Mul", l("w3", "c"), l("k3")), nodeOf("Mul", l("w4", "c"), l("k4")), nodeOf("Mul", l("m", "c"), l("k5")),
		nodeOf("Conv", l("in", "k1"), l("a"), intsOf("pads", 1, 1, 1, 1)),
		nodeOf("BatchNormalization", l("a", "s", "b1", "b1", "s"), l("a1")),
		nodeOf("Sigmoid", l("a1"), l("g")), nodeOf("Mul", l("a1", "g"), l("d")),
		nodeOf("Conv", l("d", "k2"), l("e"), intOf("group", 8), intsOf("strides", 2, 1), intsOf("pads", 1, 1, 1, 1)),
		nodeOf("Relu", l("e"), l("e1")),
		nodeOf("Conv", l("e1", "k3"), l("f"), intOf("group", 2), intsOf("dilations", 1, 2), intsOf("pads", 0, 2, 0, 2)),
		nodeOf("Erf", l("f"), l("f1")), nodeOf("Add", l("f", "f1"), l("f2")),
		nodeOf("ConvTranspose", l("f2", "k4"), l("h"), intsOf("strides", 2, 2)),
		nodeOf("MaxPool", l("h"), l("h1"), intsOf("kernel_shape", 2, 2), intsOf("strides", 2, 2)),
		nodeOf("Transpose", l("h1"), l("t"), intsOf("perm", 0, 2, 1, 3)),
		nodeOf("MatMul", l("t", "k5"), l("u")), nodeOf("Tanh", l("u"), l("u1")),
		nodeOf("Softmax", l("u1"), l("y")), nodeOf("ReduceMean", l("u1"), l("z")), outputOf("y", "z", "d"))
}

func input() map[string]*Tensor {
	x := make([]float32, 2*3*9*10)
	for i := range x {
		x[i] = float32(i%17)/16 - 0.4
	}
	return map[string]*Tensor{"in": Floats(x, 2, 3, 9, 10)}
}

// TestPaths: every path of the processor and any number of threads give the same bits.
func TestPaths(t *testing.T) {
	var first map[string]*Tensor
	for _, path := range isa.Paths() {
		for _, threads := range []int{1, 3} {
			b := cpu.NewWith(cpu.Options{Path: path, Threads: threads})
			m, err := Parse("network", network(), Options{Backend: b, Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second run has memory of the first
				out, err := m.Run(context.Background(), input())
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = out
				}
				for name, want := range first {
					for i, v := range out[name].F {
						if math.Float32bits(v) != math.Float32bits(want.F[i]) {
							t.Fatalf("%v, %d threads: %s[%d] is %v; %v on the first path", path, threads, name, i, v, want.F[i])
						}
					}
				}
			}
			b.Close()
		}
	}
}

// TestFused: a graph whose patterns are replaced answers as it did but for rounding.
func TestFused(t *testing.T) {
	b := backend(t)
	m, err := Parse("network", network(), Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	for op, n := range map[string]int{"BatchNormalization": 0, "Sigmoid": 0, "Relu": 0, "Conv": 3} {
		if m.Operators()[op] != n {
			t.Errorf("%d nodes of %s are left; want %d", m.Operators()[op], op, n)
		}
	}
	got, err := m.Run(context.Background(), input())
	if err != nil {
		t.Fatal(err)
	}
	// A second reader of every value keeps the patterns as they are.
	whole, err := parsePlain(network(), []string{"a", "a1", "g", "e", "e1"}, b)
	if err != nil {
		t.Fatal(err)
	}
	want, err := whole.Run(context.Background(), input())
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range got {
		for i, v := range x.F {
			if w := want[name].F[i]; math.Abs(float64(v-w)) > 1e-6*math.Max(1, math.Abs(float64(w))) {
				t.Fatalf("%s[%d] is %v; %v without patterns", name, i, v, w)
			}
		}
	}
}

// TestHardSwish: the four nodes of a hard swish are one, with the same bits for every kind of number.
func TestHardSwish(t *testing.T) {
	number := func(name string, v float32) []byte {
		return pb(5, join(pb(2, 1), pb(8, name), pb(4, v)))
	}
	data := modelOf(11, infoIn(11, "x", 1), number("three", 3), number("low", 0), number("high", 6), number("six", 6),
		nodeOf("Add", []string{"x", "three"}, []string{"a"}), nodeOf("Clip", []string{"a", "low", "high"}, []string{"c"}),
		nodeOf("Mul", []string{"x", "c"}, []string{"m"}), nodeOf("Div", []string{"m", "six"}, []string{"y"}), outputOf("y"))
	b := backend(t)
	m, err := Parse("network", data, Options{Backend: b})
	if err != nil || m.Operators()["HardSwish"] != 1 || len(m.Operators()) != 1 {
		t.Fatal(err, m.Operators())
	}
	plain, err := parsePlain(data, []string{"a", "c", "m"}, b)
	if err != nil || plain.Operators()["Clip"] != 1 {
		t.Fatal(err, plain.Operators())
	}
	inf := float32(math.Inf(1))
	x := []float32{0, float32(math.Copysign(0, -1)), -3, 3, -3.0000002, 2.9999998, inf, -inf, 1e38, -1e38, float32(math.NaN()), 1e-45}
	for i := range 1000 {
		x = append(x, 8*float32(math.Sin(float64(i))))
	}
	in := map[string]*Tensor{"x": Floats(x, len(x))}
	got, err := m.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got["y"].F {
		if w := want["y"].F[i]; math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
			t.Errorf("of %v it is %v; %v in four steps", x[i], v, w)
		}
	}
}

// parsePlain opens a file whose named values are outputs, too.
func parsePlain(data []byte, names []string, b *cpu.Backend) (*Model, error) {
	// The graph is the field behind the version: its outputs go behind its other fields.
	at := slices.Index(data, 7<<3|2)
	size, n := 0, at+1
	for shift := 0; ; shift += 7 {
		size |= int(data[n]&0x7f) << shift
		if n++; data[n-1] < 0x80 {
			break
		}
	}
	graph := join(data[n:n+size], outputOf(names...))
	return Parse("plain", join(data[:at], pb(7, graph), data[n+size:]), Options{Backend: b})
}

// TestLayouts: means over each pair of axes are those of the pair, whatever order memory has.
func TestLayouts(t *testing.T) {
	l := func(names ...string) []string { return names }
	m, err := Parse("layouts", modelOf(17, infoIn(11, "in", 1), nodeOf("Transpose", l("in"), l("t"), intsOf("perm", 0, 3, 1, 2)),
		nodeOf("ReduceMean", l("in"), l("a"), intsOf("axes", 1, 2), intOf("keepdims", 0)), nodeOf("ReduceMean", l("t"), l("b"), intsOf("axes", 2, 3), intOf("keepdims", 0)),
		nodeOf("GlobalAveragePool", l("t"), l("c")), nodeOf("ReduceMax", l("t"), l("d"), intsOf("axes", 1)), nodeOf("ReduceMax", l("in"), l("e"), intsOf("axes", 3)), outputOf("a", "b", "c", "d", "e")),
		Options{Backend: backend(t)})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 2*3*4*5)
	for i := range x {
		x[i] = float32(i * i % 37)
	}
	out, err := m.Run(context.Background(), map[string]*Tensor{"in": Floats(x, 2, 3, 4, 5)})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 2 * 5 {
		sum := 0.0
		for p := range 12 {
			sum += float64(x[(k/5*12+p)*5+k%5])
		}
		want := float32(sum / 12)
		for _, name := range l("a", "b", "c") {
			if got := out[name].F[k]; got != want {
				t.Errorf("%s[%d] is %v; want %v", name, k, got, want)
			}
		}
	}
	for i := range 2 * 12 {
		if want := slices.Max(x[i*5 : i*5+5]); out["d"].F[i] != want || out["e"].F[i] != want {
			t.Errorf("the largest of pixel %d is %v and %v; want %v", i, out["d"].F[i], out["e"].F[i], want)
		}
	}
}

// TestMistakes: inputs that the file rules out, a missing one and an unknown one are named.
func TestMistakes(t *testing.T) {
	m, err := Parse("small", modelOf(17, pb(11, join(pb(1, "in"), pb(2, pb(1, join(pb(1, 1), pb(2, join(pb(1, pb(2, "n")), pb(1, pb(1, 3))))))))), nodeOf("Relu", []string{"in"}, []string{"y"}), outputOf("y")),
		Options{Backend: backend(t)})
	if err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]map[string]*Tensor{
		`input "in" is missing; the model's are in float[n,3]`: {},
		"float[2 4]; the model takes in float[n,3]":            {"in": Floats(make([]float32, 8), 2, 4)},
		"int64[2 3]; the model takes":                          {"in": Ints(make([]int64, 6), 2, 3)},
		"holds 5 elements":                                     {"in": Floats(make([]float32, 5), 2, 3)},
		`it has no input "other"`:                              {"in": Floats(make([]float32, 6), 2, 3), "other": Floats(nil, 0)},
	} {
		if _, err := m.Run(context.Background(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := m.Run(ctx, map[string]*Tensor{"in": Floats(make([]float32, 6), 2, 3)}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("a run that was called off: %v", err)
	}
}

// TestHalves: every float16 is itself after a round trip, and ties go to even.
func TestHalves(t *testing.T) {
	for h := range 1 << 16 {
		v := fromHalf(uint16(h))
		if v != v {
			continue
		}
		if got := toHalf(v); got != uint16(h) {
			t.Fatalf("%04x is %v and then %04x", h, v, got)
		}
	}
	for v, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, 1 + 1.0/2048: 0x3c00, 1 + 3.0/2048: 0x3c02, 1.0 / (1 << 25): 0, 1.5 / (1 << 24): 2} {
		if got := toHalf(v); got != want {
			t.Errorf("%v is %04x; want %04x", v, got, want)
		}
	}
}
