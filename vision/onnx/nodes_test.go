package onnx

import (
	"archive/zip"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/vision/onnx/proto"
)

var nodes = flag.String("nodes", "", "folder or zip of ONNX's official node tests")

func backend(t testing.TB) *cpu.Backend {
	t.Helper()
	b, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// unsupported are the reasons why an official case is not one of the runner's. Others are failures.
var unsupported = []string{
	"the runner has no operator", "the runner has float, uint8", "is not supported", "are not supported", "inference alone", "not a tensor", "opset 8 has no Scan",
}

// TestNodes runs the official tests of operators: make nodes writes them from the installed package onnx.
func TestNodes(t *testing.T) {
	where := *nodes
	if where == "" {
		t.Skip("-nodes names no folder or zip of official node tests: make nodes")
	}
	root := os.DirFS(where)
	if strings.HasSuffix(where, ".zip") {
		z, err := zip.OpenReader(where)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = z.Close() }()
		root = z
	}
	cases, err := fs.Glob(root, "*/model.onnx")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%s: %d cases, %v", where, len(cases), err)
	}
	b := backend(t)
	passed, refused, ops := map[string]int{}, map[string]int{}, map[string]bool{}
	total, failed := 0, 0
	for _, name := range cases {
		dir := path.Dir(name)
		op, err := nodeCase(root, dir, b)
		if strings.HasSuffix(dir, "_expanded") || strings.Contains(dir, "_expanded_ver") {
			op += ", expanded"
		}
		total++
		switch {
		case err == nil:
			passed[op]++
			ops[op] = true
		case slices.ContainsFunc(unsupported, func(why string) bool { return strings.Contains(err.Error(), why) }):
			refused[op]++
		default:
			failed++
			t.Errorf("%s (%s): %v", dir, op, err)
		}
	}
	count, names := 0, 0
	for op, n := range passed {
		if count += n; !strings.Contains(op, ",") {
			names++
		}
	}
	t.Logf("%d of %d cases pass, of %d operators; %d fail; refused: %v", count, total, names, failed, refused)
	var not []string
	for op := range refused {
		if passed[op] == 0 {
			not = append(not, op)
		}
	}
	slices.Sort(not)
	t.Logf("operators without a case that passes: %v", not)
}

// nodeCase runs one case and compares its outputs.
func nodeCase(root fs.FS, dir string, b *cpu.Backend) (op string, err error) {
	data, err := fs.ReadFile(root, dir+"/model.onnx")
	if err != nil {
		return "", err
	}
	file, err := proto.Read(data)
	if err != nil {
		return "", err
	}
	for _, n := range file.Graph.Nodes {
		if op = n.Op; op != "Constant" {
			break
		}
	}
	for _, i := range slices.Concat(file.Graph.Inputs, file.Graph.Outputs) {
		if i.Type == 0 {
			return op, fmt.Errorf("%s is not a tensor", i.Name)
		}
	}
	m, err := Parse(dir, data, Options{Backend: b, Limits: Limits{Time: time.Minute}})
	if err != nil {
		return op, err
	}
	read := func(kind string, i int) (*Tensor, error) {
		data, err := fs.ReadFile(root, fmt.Sprintf("%s/test_data_set_0/%s_%d.pb", dir, kind, i))
		if err != nil {
			return nil, err
		}
		p, err := proto.ReadTensor(data)
		if err != nil {
			return nil, err
		}
		return Decode(p)
	}
	inputs := map[string]*Tensor{}
	for i, in := range file.Graph.Inputs {
		if inputs[in.Name], err = read("input", i); err != nil {
			return op, err
		}
	}
	got, err := m.Run(context.Background(), inputs)
	if err != nil {
		return op, err
	}
	rtol, atol := 1e-3, 1e-7
	if text, err := fs.ReadFile(root, dir+"/tolerance"); err == nil {
		if _, err := fmt.Sscan(string(text), &rtol, &atol); err != nil {
			return op, err
		}
	}
	for i, out := range m.Outputs() {
		want, err := read("output", i)
		if err != nil {
			return op, err
		}
		if err := within(got[out.Name], want, rtol, atol); err != nil {
			return op, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return op, nil
}

// within is the official comparison: shape and type equal, |got - want| <= atol + rtol |want|. The cases of float16
// and bfloat16 were computed with sums of that type, each step rounded; ours are of float32, rounded once. They may
// differ by two steps of the type.
func within(got, want *Tensor, rtol, atol float64) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%v; want %v", got, want)
	}
	rtol = max(rtol, map[Type]float64{Float16: 2.0 / 1024, BFloat16: 2.0 / 128}[want.Type])
	for i := range want.Len() {
		if want.S != nil {
			if got.S[i] != want.S[i] {
				return fmt.Errorf("element %d is %q; want %q", i, got.S[i], want.S[i])
			}
			continue
		}
		g, w := got.float(i), want.float(i)
		if !(math.Abs(g-w) <= atol+rtol*math.Abs(w)) && g != w && !(g != g && w != w) {
			return fmt.Errorf("element %d is %v; want %v", i, g, w)
		}
	}
	return nil
}
