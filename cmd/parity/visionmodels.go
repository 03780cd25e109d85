package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

var visionModelOps = map[string]Op{
	// Vision-language networks: logits, log-probabilities, gradients.
	"models.qwen25_vl_text": qwenText,
	"vlm.forward":           vlmForward,
	"vlm.greedy":            vlmGreedy,
	"vlm.lora":              vlmAdapter,
	"vlm.multiturn":         vlmForward,

	// Conversations to learn from: their tokens, which of them are trained, and the loss.
	"sft.llamafactory": sftTurns,
	"sft.loss":         sftLoss,
	"sft.tokens":       sftWhole,
}

// reader is a case's model, and its pictures' inputs.
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

// told is a case's record of all rows.
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

// tell reads every row, and goes back from the case's cotangents.
func (r *reader) tell() {
	c, n := r.Case, r.network
	ids := c.Array("input_ids")
	batch, length, v := ids.Shape[0], ids.Shape[1], r.m.Text.Vocabulary
	t := told{length: length, vocabulary: v, logits: make([]float64, batch*length*v), entropy: make([]float64, batch*length), logprobs: make([]float64, batch*(length-1))}
	routes := routes{batch * length, map[int][]vlm.Routing{}}
	r.m.OnRouting(func(x vlm.Routing) { routes.of[x.Layer] = append(routes.of[x.Layer], x) })
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
		row := make([]int, t.length) // the index of padding is 0
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
		n.putGrad(name, strings.TrimPrefix(weight, "base_model.model."))
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

// Vision-language networks that write: greedy answers through kept keys and values; and the
// language model alone, as pipelines read prompts with it.

func vlmGreedy(c *Case) {
	runFolder(c, c.Dir(), how{frozen: true, forwardOnly: true}, func(n *network) {
		r := newReader(n)
		ids := c.Array("input_ids")
		batch, length, steps := ids.Shape[0], ids.Shape[1], c.Int("max_new_tokens")
		d := r.m.NewDecoder(n.tape.Pool(), n.tape.Options, batch)
		defer d.Close()
		logits, rows := make([][]float32, batch), make([]int, batch)
		wholes := make([]vlm.Stretch, batch)
		for b := range batch {
			real := times(length, func(i int) int { return i })
			rows[b] = b
			wholes[b], _ = r.row(c.Ints("input_ids")[b*length:(b+1)*length], real)
			logits[b] = must(d.Extend(b, wholes[b]))
		}
		said, raw := make([][]int, batch), make([][][]float64, batch)
		for step := range steps {
			next := make([]int32, batch)
			for b, z := range logits {
				raw[b] = append(raw[b], to[float64](z))
				p := must(sampling.Default().Probabilities(to[float64](z), nil, c.Ints("suppress_tokens")))
				next[b] = int32(likeliest(p))
				said[b] = append(said[b], int(next[b]))
			}
			if step+1 < steps {
				logits = must(d.Step(rows, next))
			}
		}
		var positions [3][]int
		var deltas []int
		for b, s := range wholes {
			for _, id := range said[b] {
				s.IDs = append(s.IDs, int32(id))
			}
			at, delta := must2(r.m.Positions(s))
			deltas = append(deltas, delta)
			for axis := range at {
				positions[axis] = append(positions[axis], at[axis]...)
			}
		}
		c.Put("generated_ids", said, "step_logits", raw, "position_ids_full", positions[:], "rope_deltas", deltas)
	})
}

func likeliest(p []float64) int {
	best := 0
	for i, x := range p {
		if x > p[best] {
			best = i
		}
	}
	return best
}

// qwenText reads prompts alone: states behind the first layer and the last, 0 where padding is.
func qwenText(c *Case) {
	runNetwork(c, c.Dir(), func(n *network) {
		config := must(vlm.ReadConfig(c.Dir()))
		m := vlm.New(n.params, config)
		check(n.params.Check())
		ids, mask := c.Array("in.input_ids"), c.Ints("in.attention_mask")
		batch, length := ids.Shape[0], ids.Shape[1]
		rows := map[string][]*autograd.Value{}
		for b := range batch {
			var s vlm.Stretch
			for i, id := range c.Ints("in.input_ids")[b*length : (b+1)*length] {
				if mask[b*length+i] != 0 {
					s.IDs = append(s.IDs, int32(id))
				}
			}
			states := must(m.States(n.tape, s))
			for name, x := range map[string]*autograd.Value{"out.hidden_1": states[1], "out.last": states[len(states)-1]} {
				if rest := length - len(s.IDs); rest > 0 {
					x = n.tape.Concat(1, x, n.tape.Upload("padding", make([]float32, rest*config.Text.Width), 1, rest, config.Text.Width))
				}
				rows[name] = append(rows[name], x)
			}
		}
		for name, x := range rows {
			n.out(name, n.tape.Concat(0, x...))
		}
	})
}

// routes is where layers of experts sent the tokens of a case's rows, row by row.
type routes struct {
	tokens int // of all rows, padded ones included
	of     map[int][]vlm.Routing
}

// put records every layer's routes, with zeros for padded tokens, and the loss of all.
func (r routes) put(c *Case) {
	var all []vlm.Routing
	for layer, rows := range r.of {
		var real []int // places of tokens that are not padding
		for i := range r.tokens {
			if !c.Has("attention_mask") || c.Ints("attention_mask")[i] != 0 {
				real = append(real, i)
			}
		}
		first := rows[0]
		n, k := len(first.Logits)/len(first.Chosen), len(first.Weights[0])
		logits, weights, chosen := make([]float64, r.tokens*n), make([]float64, r.tokens*k), make([]float64, r.tokens*k)
		at := 0
		for _, row := range rows {
			for t := range row.Chosen {
				place := real[at]
				at++
				copy(logits[place*n:], to[float64](row.Logits[t*n:(t+1)*n]))
				copy(weights[place*k:], to[float64](row.Weights[t]))
				for j, i := range row.Chosen[t] {
					chosen[place*k+j] = float64(i)
				}
			}
		}
		name := func(what string) string { return fmt.Sprintf("router.%d.%s", layer, what) }
		c.Put(name("logits"), Array{Shape: []int{r.tokens, n}, Data: logits})
		c.Put(name("weights"), Array{Shape: []int{r.tokens, k}, Data: weights})
		c.Put(name("experts"), Array{Shape: []int{r.tokens, k}, Data: chosen})
		all = append(all, rows...)
	}
	slices.SortStableFunc(all, func(a, b vlm.Routing) int { return a.Layer - b.Layer })
	if all != nil {
		c.Put("aux_loss", Array{Shape: []int{1}, Data: []float64{imbalance(all)}})
	}
}

// imbalance is the loss of routers that send tokens to few experts (Switch, as transformers adds
// it up over layers): experts times Σ over experts of the share of choices and the mean probability.
func imbalance(all []vlm.Routing) float64 {
	var counts, sums []float64
	rows := 0
	for _, r := range all {
		n := len(r.Logits) / max(1, len(r.Chosen))
		if counts == nil {
			counts, sums = make([]float64, n), make([]float64, n)
		}
		for t, chosen := range r.Chosen {
			p, _ := softmax(to[float64](r.Logits[t*n : (t+1)*n]))
			for i := range p {
				sums[i] += p[i]
			}
			for _, i := range chosen {
				counts[i]++
			}
		}
		rows += len(r.Chosen)
	}
	loss := 0.0
	for i := range counts {
		loss += counts[i] / float64(rows) * sums[i] / float64(rows)
	}
	return loss * float64(len(counts))
}

// lessons makes lessons of a case, and its pictures in patches.
func lessons(c *Case) (r sft.Reader, grids []vlm.Grid) {
	r.Tokens = vlmTokens(c)
	r.Template = must(vlm.TemplateNamed(c.String("template")))
	r.Marks = must(vlm.MarksOf(r.Tokens))
	p := vlm.NewProcessor()
	p.Patch, p.Merge, p.Pixels = c.Int("patch_size"), c.Int("merge_size"), vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")}
	r.Merge = p.Merge
	for _, s := range groups(c, "image_hw", 2) {
		grids = append(grids, must(p.Grid(s[1], s[0])))
	}
	return r, grids
}

func sftWhole(c *Case) {
	r, grids := lessons(c)
	messages := must(vlm.ReadMessages(c.Text("messages")))
	var how vlm.Rendering
	if c.Has("tools") {
		how.Tools = must(vlm.ReadTools(c.Text("tools")))
	}
	text := must(r.Template.Render(messages, how))
	l := must(r.Whole(messages, how, grids, nil))
	mask := make([]int, len(l.Trained))
	for i, on := range l.Trained {
		if on {
			mask[i] = 1
		}
	}
	c.Put("text", text, "input_ids", to[int](l.IDs), "assistant_mask", mask, "grid_thw", gridRows(grids))
}

func sftTurns(c *Case) {
	r, grids := lessons(c)
	format, ok := sft.Formats[c.String("format")]
	style, known := sft.Styles[c.String("lf_template")]
	if !ok || !known {
		failf("format %q, form %q: one is not known", c.String("format"), c.String("lf_template"))
	}
	var how sft.How
	options, _ := c.Raw("options").(map[string]any)
	how.MaskHistory, how.TrainOnPrompt, how.NoThinking = options["mask_history"] == true, options["train_on_prompt"] == true, options["enable_thinking"] == false
	row, err := sft.ReadRow(c.Text("row"), format)
	if err == nil {
		var l sft.Lesson
		if l, err = r.Turns(row, style, how, grids); err == nil {
			c.Put("input_ids", to[int](l.IDs), "labels", to[int](l.Labels()))
			return
		}
	}
	switch {
	case errors.Is(err, sft.ErrDropped):
		c.Put("dropped", true)
	case errors.Is(err, sft.ErrPictures):
		c.Put("error", "ValueError")
	default:
		check(err)
	}
}

// sftLoss is the mean over all trained tokens of a batch, and its gradients.
func sftLoss(c *Case) {
	runFolder(c, c.Dir(), how{}, func(n *network) {
		r := newReader(n)
		ids := c.Array("input_ids")
		batch, length := ids.Shape[0], ids.Shape[1]
		labels := c.Ints("labels")
		nll, rows := make([]float64, batch*(length-1)), make([]float64, batch)
		var parts []*autograd.Value
		var logProb, mask [][]float64
		for b := range batch {
			lp, at := r.lesson(labels[b*length:(b+1)*length], b, length)
			logProb, mask = append(logProb, make([]float64, length)), append(mask, make([]float64, length))
			for i, x := range lp.F32() {
				nll[b*(length-1)+at[i]] = -float64(x)
				rows[b] -= float64(x) / float64(len(at))
				logProb[b][i], mask[b][i] = float64(x), 1
			}
			parts = append(parts, lp)
		}
		mean, slopes := must2(loss.Likelihood(logProb, mask, loss.Aggregate{Mode: "token-mean"}, false))
		accumulated, _ := must2(loss.Likelihood(logProb, mask, loss.Aggregate{Mode: "token-mean", Tokens: float64(c.Int("num_items"))}, false))
		c.Put("loss", mean, "loss_accumulated", accumulated)
		c.Put("token_nll", Array{Shape: []int{batch, length - 1}, Data: nll}, "row_loss", rows)
		var seeds []autograd.Seed
		for b, lp := range parts {
			seeds = append(seeds, autograd.Seed{Of: lp, Grad: to[float32](slopes[b][:lp.Dim(0)])})
		}
		n.tape.Backward(seeds...)
		n.namedGradients()
	})
}

// lesson is the log-probabilities of a row's trained tokens, and where each token before them stands.
func (r *reader) lesson(labels []int, b, length int) (lp *autograd.Value, at []int) {
	var real []int
	for i, m := range r.Ints("attention_mask")[b*length : (b+1)*length] {
		if m != 0 {
			real = append(real, i)
		}
	}
	s, values := r.row(r.Ints("input_ids")[b*length:(b+1)*length], real)
	hidden := must(r.m.HiddenOf(r.tape, s, values[0], values[1]))
	var rows, next []int32
	for k, i := range real[1:] {
		if labels[i] >= 0 {
			rows, next, at = append(rows, int32(k)), append(next, int32(labels[i])), append(at, i-1)
		}
	}
	return r.m.LogProbs(r.tape, hidden, rows, next, 1), at
}
