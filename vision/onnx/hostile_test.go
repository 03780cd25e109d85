package onnx

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostileFiles are files that must be refused, and a part of the error.
func hostileFiles() map[string]struct {
	data []byte
	want string
} {
	type file = struct {
		data []byte
		want string
	}
	l := func(names ...string) []string { return names }
	y, w := l("y"), wholesOf
	x := floatsOf("x", 2, 3)
	external := func(pairs ...string) []byte {
		t := join(pb(1, 2), pb(2, 1), pb(8, "x"), pb(14, 1))
		for i := 0; i < len(pairs); i += 2 {
			t = append(t, pb(13, join(pb(1, pairs[i]), pb(2, pairs[i+1])))...)
		}
		return modelOf(17, pb(5, t), nodeOf("Relu", l("x"), y), outputOf("y"))
	}
	one := func(op string, parts ...[]byte) []byte { return modelOf(17, append(parts, outputOf("y"))...) }
	deep := outputOf("y")
	for range 40 {
		deep = join(nodeOf("If", l("c"), y, graphOf("then_branch", deep), graphOf("else_branch", outputOf("c"))), outputOf("y"))
	}
	body := join(infoIn(11, "i", 7), infoIn(11, "go", 9), infoIn(11, "v", 1), nodeOf("Identity", l("go"), l("again")), nodeOf("Relu", l("v"), l("w")), infoIn(12, "again", 9), outputOf("w"))
	inner := join(infoIn(11, "i2", 7), infoIn(11, "go2", 9), nodeOf("Identity", l("go2"), l("again2")), infoIn(12, "again2", 9), nodeOf("Add", l("big", "big"), l("sum")), outputOf("sum"))
	outer := join(infoIn(11, "i", 7), infoIn(11, "go", 9), nodeOf("Loop", l("n", "c"), l("rows"), graphOf("body", inner)), nodeOf("Identity", l("go"), l("again")), infoIn(12, "again", 9), outputOf("rows"))
	badShape := func(dims ...int) []byte {
		t := join(pb(2, 1), pb(8, "x"), pb(9, make([]byte, 24)))
		for _, d := range dims {
			t = append(t, pb(1, d)...)
		}
		return modelOf(17, pb(5, t), nodeOf("Relu", l("x"), y), outputOf("y"))
	}
	bad := `"bad"`
	return map[string]file{
		"empty":                     {nil, "no graph"},
		"text":                      {[]byte("this is no ONNX file, it is a text of some length"), ""},
		"cut":                       {one("", x, nodeOf("Relu", l("x"), y))[:40], "ends within a field"},
		"no graph":                  {join(pb(1, 8), pb(8, pb(2, 17))), "no graph"},
		"no opset":                  {pb(7, outputOf()), "opset_import"},
		"two graphs":                {join(pb(7, outputOf()), pb(7, outputOf())), "two graphs"},
		"future opset":              {modelOf(99, x, outputOf("x")), "opset is 99"},
		"field zero":                {[]byte{0, 0}, "number 0"},
		"reads itself":              {one("", nodeOf("Relu", l("y"), y)), bad},
		"a circle":                  {one("", nodeOf("Relu", l("b"), l("a")), nodeOf("Relu", l("a"), l("b"))), bad},
		"written twice":             {one("", x, nodeOf("Relu", l("x"), y), nodeOf("Relu", l("x"), y)), bad},
		"overwrites a constant":     {one("", x, nodeOf("Relu", l("x"), l("x"))), bad},
		"unknown operator":          {one("", x, nodeOf("Explode", l("x"), y)), bad},
		"another domain":            {one("", x, pb(1, join(pb(1, "x"), pb(2, "y"), pb(3, "bad"), pb(4, "Relu"), pb(7, "com.example")))), bad},
		"output nobody writes":      {one("", x), `no node writes the output "y"`},
		"no outputs":                {one("", x, nodeOf("Relu", l("x"), nil)), bad},
		"too many inputs":           {one("", x, nodeOf("Relu", l("x", "x", "x"), y)), bad},
		"an input is missing":       {one("", x, nodeOf("Add", l("x", ""), y)), bad},
		"external above":            {external("location", "../secret"), "outside the model's folder"},
		"external absolute":         {external("location", "/etc/passwd"), "outside the model's folder"},
		"external through a link":   {external("location", "link"), "external data"},
		"external beyond the end":   {external("location", "data", "offset", "1000"), "external data"},
		"external negative":         {external("location", "data", "offset", "-4"), "offset"},
		"external length":           {external("location", "data", "length", "9223372036854775807"), "external data"},
		"external folder":           {external("location", "folder"), "regular file"},
		"negative shape":            {badShape(-1, 6), `initializer "x"`},
		"shape of terabytes":        {badShape(1<<31-1, 1<<31-1), `initializer "x"`},
		"shape that overflows":      {badShape(1<<30, 1<<30, 1<<30, 1<<30, 16), `initializer "x"`},
		"fewer numbers than shape":  {badShape(100), `initializer "x"`},
		"seventy axes":              {badShape(slices.Repeat([]int{1}, 70)...), "axes"},
		"an unknown type":           {modelOf(17, pb(5, join(pb(2, 18), pb(8, "x"))), outputOf("x")), "float8e4m3fnuz"},
		"a sparse constant":         {modelOf(17, pb(15, ""), outputOf()), "sparse"},
		"its own function":          {join(pb(25, join(pb(1, "Mine"), pb(10, "me"))), modelOf(17, x, pb(1, join(pb(1, "x"), pb(2, "y"), pb(3, "bad"), pb(4, "Mine"), pb(7, "me"))), outputOf("y"))), bad},
		"forty graphs deep":         {one("", truthOf("c"), deep), "deep"},
		"ConstantOfShape":           {one("", w("s", 1<<20, 1<<20), nodeOf("ConstantOfShape", l("s"), y)), bad},
		"Expand":                    {one("", floatsOf("x", 1), w("s", 1<<18, 1<<18), nodeOf("Expand", l("x", "s"), y)), bad},
		"Tile":                      {one("", x, w("s", 1<<20, 1<<20), nodeOf("Tile", l("x", "s"), y)), bad},
		"Pad":                       {one("", x, w("s", 1<<27, 1<<27, 1<<27, 1<<27), nodeOf("Pad", l("x", "s"), y)), bad},
		"Range":                     {one("", wholeOf("a", 0), wholeOf("b", 1<<62), wholeOf("d", 1), nodeOf("Range", l("a", "b", "d"), y)), bad},
		"Range of step 0":           {one("", wholeOf("a", 0), wholeOf("b", 1), wholeOf("d", 0), nodeOf("Range", l("a", "b", "d"), y)), bad},
		"Resize":                    {one("", floatsOf("x", 1, 1, 2, 2), w("s", 1, 1, 1<<23, 1<<23), nodeOf("Resize", l("x", "", "", "s"), y)), bad},
		"OneHot":                    {one("", w("x", 1, 2), w("d", 1<<27), floatsOf("v", 2), nodeOf("OneHot", l("x", "d", "v"), y)), bad},
		"a loop without an end":     {one("", truthOf("c"), x, nodeOf("Loop", l("", "c", "x"), y, graphOf("body", body))), "nodes have run"},
		"a loop of loops":           {modelOf(17, truthOf("c"), wholeOf("n", 1<<40), floatsOf("big", 1<<10), nodeOf("Loop", l("n", "c"), y, graphOf("body", outer)), outputOf("y")), bad},
		"If without branches":       {one("", truthOf("c"), nodeOf("If", l("c"), y)), bad},
		"If by a number":            {one("", x, nodeOf("If", l("x"), y, graphOf("then_branch", outputOf()), graphOf("else_branch", outputOf()))), bad},
		"a kernel larger than all":  {one("", floatsOf("x", 1, 1, 4, 4), floatsOf("k", 1, 1, 9, 9), nodeOf("Conv", l("x", "k"), y)), bad},
		"padding of gigabytes":      {one("", floatsOf("x", 1, 1, 4, 4), floatsOf("k", 1, 1, 1, 1), nodeOf("Conv", l("x", "k"), y, intsOf("pads", 1<<19, 1<<19, 1<<19, 1<<19))), bad},
		"a dilation of 2^62":        {one("", floatsOf("x", 1, 1, 4, 4), floatsOf("k", 1, 1, 2, 2), nodeOf("Conv", l("x", "k"), y, intsOf("dilations", 1<<62, 1<<62))), bad},
		"strides of 0":              {one("", floatsOf("x", 1, 1, 4, 4), floatsOf("k", 1, 1, 2, 2), nodeOf("Conv", l("x", "k"), y, intsOf("strides", 0, 0))), bad},
		"groups that do not divide": {one("", floatsOf("x", 1, 3, 4, 4), floatsOf("k", 2, 3, 2, 2), nodeOf("Conv", l("x", "k"), y, intOf("group", 2))), bad},
		"ConvTranspose":             {one("", floatsOf("x", 1, 1, 4, 4), floatsOf("k", 1, 1, 2, 2), nodeOf("ConvTranspose", l("x", "k"), y, intsOf("strides", 1<<20, 1<<20))), bad},
		"a pool of everything":      {one("", floatsOf("x", 1, 1, 4, 4), nodeOf("MaxPool", l("x"), y, intsOf("kernel_shape", 1<<20, 1<<20), intsOf("pads", 1<<20, 1<<20, 1<<20, 1<<20))), bad},
		"products that do not fit":  {one("", x, nodeOf("MatMul", l("x", "x"), y)), bad},
		"a product of hours":        {one("", floatsOf("x", 1<<11, 1), w("s", 1<<11, 1<<11), nodeOf("Expand", l("x", "s"), l("m")), nodeOf("MatMul", l("m", "m"), y)), bad},
		"float and int64":           {one("", x, w("i", 1, 2, 3), nodeOf("Add", l("x", "i"), y)), bad},
		"a text in a convolution":   {one("", pb(5, join(pb(1, 1), pb(1, 1), pb(1, 1), pb(2, 8), pb(6, "a"), pb(8, "t"))), floatsOf("k", 1, 1, 1), nodeOf("Conv", l("t", "k"), y)), bad},
		"an index beyond":           {one("", x, w("i", 7), nodeOf("Gather", l("x", "i"), y)), bad},
		"ScatterND beyond":          {one("", x, w("i", -9), floatsOf("u"), nodeOf("ScatterND", l("x", "i", "u"), y)), bad},
		"a shape that does not fit": {one("", x, w("s", 4, -1), nodeOf("Reshape", l("x", "s"), y)), bad},
		"a permutation twice":       {one("", x, nodeOf("Transpose", l("x"), y, intsOf("perm", 0, 0))), bad},
		"parts beyond the whole":    {one("", x, w("s", 1, 9), nodeOf("Split", l("x", "s"), l("y", "z"))), bad},
		"more than there are":       {one("", x, w("k", 1<<40), nodeOf("TopK", l("x", "k"), l("y", "z"))), bad},
		"Concat of ranks":           {one("", x, floatsOf("z", 2), nodeOf("Concat", l("x", "z"), y, intOf("axis", 0))), bad},
		"a step of 0":               {one("", x, w("a", 0), w("b", 2), w("s", 0), nodeOf("Slice", l("x", "a", "b", "a", "s"), y)), bad},
		"an axis of 2^31":           {one("", x, nodeOf("Flatten", l("x"), y, intOf("axis", 1<<31))), bad},
		"a division by zero":        {one("", w("a", 1), w("b", 0), nodeOf("Div", l("a", "b"), y)), bad},
		"an equation":               {one("", x, nodeOf("Einsum", l("x"), y, textOf("equation", "ij->ik"))), bad},
		"an LSTM without weights":   {one("", floatsOf("x", 1, 1, 2), floatsOf("r", 1, 4, 3), nodeOf("LSTM", l("x", "r", "r"), y)), bad},
		"a number of 11 bytes":      {[]byte{8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, "field"},
		"a group of fields":         {[]byte{0x0b, 0x0b, 0x0b, 0x0c, 0x0c, 0x0c}, "wire type"},
		"a length beyond the end":   {append([]byte{0x3a}, 255, 255, 255, 255, 255, 255, 255, 255, 127), "ends within a field"},
		"a million axes":            {modelOf(17, pb(5, join(pb(1, make([]byte, 1<<20)), pb(2, 1), pb(8, "x"))), nodeOf("Relu", l("x"), y), outputOf("y")), "axes"},
		"texts that unfold":         {modelOf(17, pb(5, join(pb(1, 1<<22), pb(2, 8), bytes.Repeat(pb(6, ""), 1<<22), pb(8, "x"))), nodeOf("Identity", l("x"), y), outputOf("y")), "texts"},
		"types within types":        {one("", pb(11, join(pb(1, "q"), pb(2, nested(5000)))), nodeOf("Relu", l("q"), y)), ""},
		"a hundred thousand nodes":  {one("", x, bytes.Repeat(nodeOf("Relu", l("x"), nil), 100_000)), bad},
		"graphs without an end":     {join(pb(1, 8), pb(7, endless(3000)), pb(8, pb(2, 17))), ""},
		"weights of two types":      {modelOf(17, pb(5, join(pb(1, 2), pb(2, 1), pb(8, "x"), pb(9, make([]byte, 8)), pb(7, 5))), nodeOf("Relu", l("x"), y), outputOf("y")), `initializer "x"`},
		"a value that is missing":   {one("", nodeOf("Constant", nil, y)), bad},
	}
}

// nested is a type of sequences of sequences.
func nested(depth int) []byte {
	t := pb(1, pb(1, 1))
	for range depth {
		t = pb(4, pb(1, t))
	}
	return t
}

// endless is a node whose attribute is a graph with such a node.
func endless(depth int) []byte {
	g := outputOf("y")
	for range depth {
		g = nodeOf("If", []string{"c"}, []string{"y"}, graphOf("then_branch", g))
	}
	return g
}

// TestHostile opens and runs files that do harm, if they can: each is refused by the name of its node, in little
// memory and time, and none makes the program panic.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for _, err := range []error{os.WriteFile(outside, make([]byte, 64), 0o600), os.WriteFile(filepath.Join(dir, "data"), make([]byte, 8), 0o600),
		os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink(outside, filepath.Join(dir, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := backend(t)
	files := hostileFiles()
	if len(files) < 40 {
		t.Errorf("%d files", len(files))
	}
	for name, f := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "model.onnx")
			if err := os.WriteFile(path, f.data, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			m, err := Open(path, Options{Backend: b, Limits: Limits{Bytes: 64 << 20, Work: 1 << 30, Steps: 2000, Time: 10 * time.Second}})
			if err == nil {
				_, err = m.Run(context.Background(), nil)
			}
			runtime.ReadMemStats(&after)
			switch {
			case err == nil:
				t.Fatal("it runs")
			case !strings.Contains(err.Error(), f.want) || !strings.Contains(err.Error(), path):
				t.Errorf("%v; %q is missing", err, f.want)
			}
			if took := time.Since(began); took > 9*time.Second {
				t.Errorf("it takes %v", took)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("it takes %d MB", took>>20)
			}
		})
	}
}

// FuzzRun: no bytes make the runner panic, hang, or take more memory than its limits.
func FuzzRun(f *testing.F) {
	for _, h := range hostileFiles() {
		f.Add(h.data)
	}
	b := backend(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("fuzz", data, Options{Backend: b, Threads: 1, Limits: Limits{Bytes: 1 << 20, Work: 1 << 22, Steps: 50, Time: 5 * time.Second}})
		if err != nil {
			return
		}
		inputs := map[string]*Tensor{}
		for _, in := range m.Inputs() {
			shape := []int{}
			for _, d := range in.Shape {
				if d < 0 {
					d = 2
				}
				shape = append(shape, d)
			}
			n, err := checkedVolume(shape)
			if err != nil || n > 1<<16 || in.Type.size() == 0 {
				return
			}
			x := &Tensor{Type: in.Type, Shape: shape}
			x.make(n)
			inputs[in.Name] = x
		}
		_, _ = m.Run(context.Background(), inputs)
	})
}
