package main

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/scorers"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/hed"
	"github.com/darkroom-rl/darkroom/vision/onnx"
	"github.com/darkroom-rl/darkroom/vision/onnx/nodetest"
	"github.com/darkroom-rl/darkroom/vision/ppocr"
)

// ONNX: the official tests of its operators, and networks that packages ship, in the folder that --networks names:
// NETWORK/FILE.onnx.

var networkOps = map[string]Op{
	"eyes.onnx_node": onnxNode,
	"eyes.hed":       onNetworks(edgesOfHED),
	"eyes.nudenet":   onNetworks(nudenet),
	"eyes.open_nsfw": onNetworks(openNSFW),
	"eyes.ppocr":     onNetworks(ppOCR),
}

func onnxNode(c *Case) {
	z := must(zip.OpenReader(filepath.Join(c.Dir(), "nodes.zip")))
	defer func() { _ = z.Close() }() // of a file that is read
	be := must(cpu.New())
	defer be.Close()
	n := must(nodetest.Open(z, c.Name, be))
	c.Put("share", must(n.Run(context.Background(), nodetest.Tolerance{Rel: c.Float("rtol"), Abs: c.Float("atol")})))
}

// networks are published networks, and the options of their runs.
type networks struct {
	folder string
	onnx.Options
}

func onNetworks(op func(c *Case, n networks)) Op {
	return func(c *Case) {
		if c.networks == "" {
			check(Skipped{"--networks names no folder of published networks: make published"})
		}
		be := must(cpu.New())
		defer be.Close()
		op(c, networks{c.networks, onnx.Options{Backend: be, Threads: be.Threads()}})
	}
}

// edgesOfHED puts the maps of pictures, and holds the grey pictures of edges to the recorded ones, within a step.
func edgesOfHED(c *Case, n networks) {
	path := filepath.Join(n.folder, "hed", "hed.safetensors")
	if _, err := os.Stat(path); err != nil {
		check(Skipped{"hed/hed.safetensors is not in the folder of --networks"})
	}
	net := must(hed.Open(path, features.On(tensor.NewPool(n.Backend), features.F32)))
	defer net.Close()
	for _, item := range items[struct{ Picture, Edges string }](c) {
		m := must(net.Maps(context.Background(), caseImage(c, item.Picture)))
		name, _, _ := strings.Cut(item.Picture, ".")
		put := func(of string, values []float32) {
			a := Array{Shape: []int{m.Height, m.Width}, Data: kept(values)}
			if len(a.Data) != len(values) {
				a.Shape = []int{len(a.Data)}
			}
			c.Put("out."+of+"."+name, a)
		}
		for i, side := range m.Sides {
			put(fmt.Sprintf("side%d", i+1), side)
		}
		put("fused", m.Fused)
		got, want := m.Image(), caseImage(c, item.Edges)
		for i, v := range want.Pix {
			if d := int(got.Pix[i]) - int(v); d < -1 || d > 1 {
				failf("%s: byte %d is %d, and %d was recorded", item.Edges, i, got.Pix[i], v)
			}
		}
	}
}

// path is the file of a network.
func (n networks) path(name string) string {
	found := must(filepath.Glob(filepath.Join(n.folder, name, "*.onnx")))
	if len(found) != 1 {
		failf("%s: %d files are %s%c*.onnx; one is needed", n.folder, len(found), name, filepath.Separator)
	}
	return found[0]
}

// kept are the values of a tensor that a case keeps: of long ones 256.
func kept(values []float32) []float64 {
	if len(values) <= 2048 {
		return to[float64](values)
	}
	return times(256, func(k int) float64 { return float64(values[k*2654435761%len(values)]) })
}

// fed holds a network's input to the recorded one, and puts its output.
func fed(c *Case, of string, in, out *onnx.Tensor) {
	a := Array{Data: kept(in.F)}
	a.Shape = []int{len(a.Data)}
	agrees(c, "in."+of, a)
	a = Array{Shape: out.Shape, Data: kept(out.F)}
	if out.Len() != len(a.Data) {
		a.Shape = []int{len(a.Data)}
	}
	c.Put("out."+of, a)
}

// otherResize holds an output to the tolerance of other resizes of its picture, where the case has no exact input.
func otherResize(c *Case, name string, allowed float64) {
	got, _ := c.ran.out[name].(Array)
	want, err := arrayOf(c.want[name])
	if err != nil || len(got.Data) != len(want.Data) {
		failf("%s has %d values; %d were recorded", name, len(got.Data), len(want.Data))
	}
	for i, v := range want.Data {
		if !(math.Abs(got.Data[i]-v) <= allowed) {
			failf("%s[%d] is %v; %v was recorded", name, i, got.Data[i], v)
		}
	}
	c.LeavesOut(name)
}

// items are a networks' case's pictures.
func items[T any](c *Case) []T {
	var doc struct{ Items []T }
	check(json.Unmarshal(c.raw, &doc))
	if len(doc.Items) == 0 {
		failf("no pictures")
	}
	return doc.Items
}

// stem is a picture's name in the names of tensors.
func stem(picture string) string { return strings.TrimSuffix(picture, filepath.Ext(picture)) }

func openNSFW(c *Case, n networks) {
	type item struct {
		Picture string
		Input   string `json:"input_png"`
		Result  struct{ Score float64 }
		Without float64 `json:"without_jpeg"`
	}
	for name, key := range map[string]string{"open_nsfw": "keras", "open_nsfw_tf": "tf"} {
		o := must(scorers.Open(n.path(name), scorers.ONNXOptions{Preset: "open_nsfw", Index: -1, Fit: "stretch"}, n.Options))
		whole := must(scorers.Open(n.path(name), scorers.ONNXOptions{Preset: "open_nsfw", Index: -1}, n.Options))
		for _, i := range items[item](c) {
			x := must(o.Input(caseImage(c, i.Input)))
			out := must(o.Model.Run(context.Background(), map[string]*onnx.Tensor{o.Model.Inputs()[0].Name: x}))
			fed(c, key+"."+stem(i.Picture), x, out[o.Model.Outputs()[0].Name])
			s := must(whole.Score(context.Background(), rewards.Item{Image: caseImage(c, i.Picture)}))
			if key == "keras" && math.Abs(s.Value-i.Without) > 1e-6+1e-4*i.Without {
				failf("%s: the score is %v; %v was recorded without a JPEG between", i.Picture, s.Value, i.Without)
			}
		}
	}
}

func nudenet(c *Case, n networks) {
	type item struct {
		Picture string
		Input   string `json:"input_png"`
		Result  []struct {
			Class string
			Score float64
			Box   []int
		}
	}
	o := must(scorers.Open(n.path("nudenet"), scorers.ONNXOptions{Preset: "nudenet", Index: -1}, n.Options))
	for _, i := range items[item](c) {
		m := caseImage(c, i.Picture)
		x := must(o.Input(m))
		out := must(o.Model.Run(context.Background(), map[string]*onnx.Tensor{o.Model.Inputs()[0].Name: x}))[o.Model.Outputs()[0].Name]
		fed(c, stem(i.Picture), x, out)
		c.Put("out.rows."+stem(i.Picture), surest(out))
		found := must(o.Detect(context.Background(), m, nil))
		if len(found) != len(i.Result) {
			failf("%s: %d boxes; %d were recorded", i.Picture, len(found), len(i.Result))
		}
		for k, f := range found {
			want := i.Result[k]
			b := []int{int(f.Box[0]), int(f.Box[1]), int(f.Box[2] - f.Box[0]), int(f.Box[3] - f.Box[1])}
			if f.Class != want.Class || math.Abs(f.Score-want.Score) > 1e-4 || !slices.Equal(b, want.Box) {
				failf("%s: box %d is %s %v at %v; %v was recorded", i.Picture, k, f.Class, f.Score, b, want)
			}
		}
	}
}

// surest are up to eight rows whose best class has at least 0.05, the surest first.
func surest(out *onnx.Tensor) Array {
	width, places := out.Shape[1], out.Shape[2]
	var rows [][]float64
	for p := range places {
		row := times(width, func(k int) float64 { return float64(out.F[k*places+p]) })
		if slices.Max(row[4:]) >= 0.05 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b []float64) int { return cmp.Compare(slices.Max(b[4:]), slices.Max(a[4:])) })
	rows = rows[:min(8, len(rows))]
	return Array{Shape: []int{len(rows), width}, Data: flat(rows)}
}

func ppOCR(c *Case, n networks) {
	type item struct {
		Picture string
		Result  struct {
			Texts  []string
			Scores []float64
			Boxes  struct{ Data []float64 }
		}
		Rewards []struct {
			Prompt string
			Reward float64
		}
		Det struct {
			Exact   bool `json:"exact_input"`
			Tensors map[string]struct {
				Tol float64 `json:"tol_from_picture"`
			}
		}
		Rec []struct {
			Lines []string
			Input struct{ Shape []int }
		}
	}
	recogniser := must(onnx.Open(n.path("ppocr_rec"), n.Options))
	r := must(ppocr.Open(n.folder, ppocr.Rapid(), n.Options))
	for _, i := range items[item](c) {
		counts := map[string]int{}
		r.Watch = func(network string, in, out *onnx.Tensor) {
			of := network + "." + stem(i.Picture)
			if network != "det" {
				of += fmt.Sprintf(".%d", counts[network])
			}
			counts[network]++
			fed(c, of, in, out)
		}
		lines := must(r.Read(context.Background(), caseImage(c, i.Picture)))
		if of := "out.det." + stem(i.Picture); !i.Det.Exact {
			otherResize(c, of, i.Det.Tensors[of].Tol)
		}
		for k, b := range i.Rec { // the recorded lines, of which crops here may differ by one step
			x := ppocr.Batch(each(b.Lines, func(name string) *vision.Image { return caseImage(c, name) }), b.Input.Shape[3])
			out := must(recogniser.Run(context.Background(), map[string]*onnx.Tensor{recogniser.Inputs()[0].Name: x}))
			of := fmt.Sprintf("%s.%d", stem(i.Picture), k)
			fed(c, "rec."+of, x, out[recogniser.Outputs()[0].Name])
			putSteps(c, of, out[recogniser.Outputs()[0].Name])
		}
		want := i.Result
		if len(lines) != len(want.Texts) {
			failf("%s: %d texts; %d were recorded", i.Picture, len(lines), len(want.Texts))
		}
		var read []rewards.Line
		for k, l := range lines {
			if l.Text != want.Texts[k] || math.Abs(l.Score-want.Scores[k]) > 2e-3 {
				failf("%s: text %d is %q, %v; %q, %v was recorded", i.Picture, k, l.Text, l.Score, want.Texts[k], want.Scores[k])
			}
			for j, p := range l.Box {
				if math.Abs(p.X-want.Boxes.Data[8*k+2*j]) > 1.5 || math.Abs(p.Y-want.Boxes.Data[8*k+2*j+1]) > 1.5 {
					failf("%s: corner %d of text %d is %v", i.Picture, j, k, p)
				}
			}
			read = append(read, rewards.Line{Text: l.Text, Confidence: l.Score})
		}
		rule := rewards.OCRRule{Formula: "flow_grpo"}
		for _, of := range i.Rewards {
			if got := rule.Of(must(rule.Target(of.Prompt)), read); math.Abs(got-of.Reward) > 1e-9 {
				failf("%s: %q has the reward %v; %v was recorded", i.Picture, of.Prompt, got, of.Reward)
			}
		}
	}
}

// putSteps puts the best class of each step, and its probability.
func putSteps(c *Case, of string, out *onnx.Tensor) {
	ids, top := Array{Shape: out.Shape[:2]}, Array{Shape: out.Shape[:2]}
	for row := range slices.Chunk(out.F, out.Shape[2]) {
		best := 0
		for k, v := range row {
			if v > row[best] {
				best = k
			}
		}
		ids.Data, top.Data = append(ids.Data, float64(best)), append(top.Data, float64(row[best]))
	}
	c.Put("out.ids."+of, ids, "out.top."+of, top)
}
