package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Vision-language networks: logits, log-probabilities, gradients.

var visionModelOps = map[string]Op{
	"models.qwen25_vl_text": qwenText,
	"vlm.forward":           vlmForward,
	"vlm.greedy":            vlmGreedy,
	"vlm.lora":              vlmAdapter,
	"vlm.multiturn":         vlmForward,
}

// reader is a case's model, and what it has of its pictures.
type reader struct {
	*network
	m     *vlm.Model
	kinds [2]pictureKind
}

// pictureKind is the pictures or the clips of all rows of a case, one after another.
type pictureKind struct {
	id    int32
	grids []vlm.Grid
	value *autograd.Value // [patches, numbers]
	used  int             // grids, and patches, that rows before had
	done  int
}

func newReader(n *network) *reader {
	config := must(vlm.ReadConfig(n.Dir()))
	r := &reader{network: n, m: vlm.New(n.params, config)}
	check(n.params.Check())
	for i, name := range [][4]string{{"image_grid_thw", "pixel_values", "image_embeds", "deepstack"}, {"video_grid_thw", "pixel_values_videos", "video_embeds", "deepstack_videos"}} {
		r.kinds[i].id = []int32{config.Picture, config.Clip}[i]
		if !n.Has(name[0]) {
			continue
		}
		r.kinds[i].grids, r.kinds[i].value = gridsOf(n.Case, name[0]), n.value(name[1])
		seen := must(r.m.Tower.Forward(n.tape, r.kinds[i].value, r.kinds[i].grids))
		n.Put(name[2], n.array(seen.States.Shape()[1:], seen.States.F32(), false))
		for j, v := range seen.Deep {
			n.Put(fmt.Sprintf("%s.%d", name[3], j), n.array(v.Shape()[1:], v.F32(), false))
		}
	}
	return r
}

// row is a row's tokens without padding, with its own pictures, and their patches on the tape.
func (r *reader) row(ids []int, real []int) (s vlm.Stretch, values [2]*autograd.Value) {
	need := [2]int{}
	for _, i := range real {
		s.IDs = append(s.IDs, int32(ids[i]))
		for k := range need {
			if int32(ids[i]) == r.kinds[k].id {
				need[k]++
			}
		}
	}
	for k, into := range []*vlm.Patches{&s.Pictures, &s.Clips} {
		kind := &r.kinds[k]
		var rows []int32
		for need[k] > 0 && kind.used < len(kind.grids) {
			g := kind.grids[kind.used]
			kind.used++
			into.Grids = append(into.Grids, g)
			for range g.Patches() {
				rows = append(rows, int32(kind.done))
				kind.done++
			}
			need[k] -= g.Tokens(r.m.Vision.Merge)
		}
		if rows != nil {
			width := kind.value.Dim(-1)
			values[k] = r.tape.Gather(kind.value, rows, len(rows))
			into.Values = slices.Clone(kind.value.F32()[int(rows[0])*width : (int(rows[0])+len(rows))*width])
		}
	}
	if len(s.Clips.Grids) > 0 && r.Has("second_per_grid_ts") {
		s.Seconds = r.Floats("second_per_grid_ts")
	}
	return s, values
}

// told is what a case records of all rows.
type told struct {
	length                    int
	positions                 [3][]int
	deltas                    []int
	vocabulary                int
	logits, entropy, logprobs []float64
	seeds                     []autograd.Seed
}

func vlmForward(c *Case) {
	runFolder(c, c.Dir(), how{}, func(n *network) { n.textTower() })
}

// vlmAdapter is vlmForward of a frozen model with an adapter in PEFT's files.
func vlmAdapter(c *Case) {
	runFolder(c, c.Dir(), how{frozen: true}, func(n *network) {
		r := newReader(n)
		a := must(peft.Open(filepath.Join(c.Dir(), "adapter"), "model"))
		defer a.Close()
		must(a.AddTo(n.params))
		r.tell()
	})
}

func (n *network) textTower() {
	newReader(n).tell()
}

// tell reads every row, and goes back from what the case says of its numbers.
func (r *reader) tell() {
	c, n := r.Case, r.network
	ids := c.Array("input_ids")
	batch, length, v := ids.Shape[0], ids.Shape[1], r.m.Text.Vocabulary
	t := told{length: length, vocabulary: v, logits: make([]float64, batch*length*v), entropy: make([]float64, batch*length), logprobs: make([]float64, batch*(length-1))}
	routes := routes{batch * length, map[int][]vlm.Routing{}}
	r.m.Hear(func(x vlm.Routing) { routes.of[x.Layer] = append(routes.of[x.Layer], x) })
	for b := range batch {
		r.forward(&t, b)
	}
	routes.put(c)
	c.Put("position_ids", t.positions[:], "rope_deltas", t.deltas)
	c.Put("logits", Array{Shape: []int{batch, length, v}, Data: t.logits}, "entropy", t.entropy)
	c.Put("token_logprobs", t.logprobs)
	n.tape.Backward(t.seeds...)
	n.namedGradients()
}

// forward reads row b.
func (r *reader) forward(t *told, b int) {
	flat, base := r.Ints("input_ids")[b*t.length:(b+1)*t.length], b*t.length
	var real []int
	for i := range flat {
		if !r.Has("attention_mask") || r.Ints("attention_mask")[base+i] != 0 {
			real = append(real, i)
		}
	}
	s, values := r.row(flat, real)
	at, delta := must2(r.m.Positions(s))
	t.deltas = append(t.deltas, delta)
	for axis := range at {
		row := make([]int, t.length) // padding stands at 0
		for k, i := range real {
			row[i] = at[axis][k]
		}
		t.positions[axis] = append(t.positions[axis], row...)
	}
	hidden := must(r.m.HiddenOf(r.tape, s, values[0], values[1]))
	logits := r.m.Logits(r.tape, hidden)
	x, v := logits.F32(), t.vocabulary
	seed := make([]float32, len(x))
	var rows, next []int32
	var grads []float32
	var places []int
	for k, i := range real {
		z := x[k*v : (k+1)*v]
		copy(t.logits[(base+i)*v:], to[float64](z))
		t.entropy[base+i] = entropyOf(z)
		if r.Has("cotangent") {
			copy(seed[k*v:], to[float32](r.Floats("cotangent")[(base+i)*v:][:v]))
		}
		if k+1 == len(real) || real[k+1] != i+1 {
			continue
		}
		rows, next, places = append(rows, int32(k)), append(next, s.IDs[k+1]), append(places, b*(t.length-1)+i)
		if r.Has("logprob_cotangent") {
			grads = append(grads, float32(r.Floats("logprob_cotangent")[places[len(places)-1]]))
		}
	}
	lp := r.m.LogProbs(r.tape, hidden, rows, next, 1)
	for k, p := range lp.F32() {
		t.logprobs[places[k]] = float64(p)
	}
	if r.Has("cotangent") {
		t.seeds = append(t.seeds, autograd.Seed{Of: logits, Grad: seed})
	}
	if grads != nil {
		t.seeds = append(t.seeds, autograd.Seed{Of: lp, Grad: grads})
	}
}

// namedGradients are those that the case's outputs name as "grad." and a weight or an input.
func (n *network) namedGradients() {
	for name := range n.want {
		weight, ok := strings.CutPrefix(name, "grad.")
		if !ok {
			continue
		}
		if in, ok := n.inputs[weight]; ok {
			n.Put(name, n.array(in.v.Grad().Shape(), in.v.Grad().F32(), false))
			continue
		}
		g := must(n.params.Grad(strings.TrimPrefix(weight, "base_model.model.")))
		n.Put(name, Array{Shape: g.Shape, Data: to[float64](must(g.Float32(nil)))})
	}
}

func entropyOf(z []float32) float64 {
	most, sum, mean := math.Inf(-1), 0.0, 0.0
	for _, e := range z {
		most = max(most, float64(e))
	}
	for _, e := range z {
		p := math.Exp(float64(e) - most)
		sum += p
		mean += p * (float64(e) - most)
	}
	return math.Log(sum) - mean/sum
}
