package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/flux2"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/diffusion/zimage"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/video/dit"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

var modelOps = map[string]Op{
	// Diffusion networks.
	"models.flux_transformer": model(flux.ReadConfig, flux.New, fluxTransformer),
	"models.sd3_transformer":  model(mmdit.ReadConfig, mmdit.New, sd3Transformer),

	"models.flux2_transformer":      model(flux2.ReadConfig, flux2.New, flux2Transformer),
	"models.z_image_transformer":    model(zimage.ReadConfig, zimage.New, zImageTransformer),
	"models.qwen_image_transformer": model(qwenimage.ReadConfig, qwenimage.New, qwenImageTransformer),
	"models.unet2d_condition":       model(unet.ReadConfig, unet.New, unetCondition),

	// Autoencoders.
	"models.autoencoder_kl":     autoencoderKL,
	"models.autoencoder_kl_wan": model(clips.ReadConfig, clips.New, autoencoderWan),
	"models.autoencoder_tiny":   model(vae.ReadTinyConfig, vae.NewTiny, autoencoderTiny),

	// Text encoders, and CLIP's two towers.
	"models.clip":                 model(clip.ReadConfig, clip.New, clipModel),
	"models.clip_text":            clipText,
	"models.clip_text_projection": clipText,
	"models.t5_encoder":           model(t5.ReadConfig, t5.New, t5Encoder),
	"models.umt5_encoder":         model(t5.ReadConfig, t5.New, t5Encoder),

	// Networks over clips: cases have [B, C, T, H, W], the engine [B, T, H, W, C].
	"models.wan_transformer": model(dit.ReadConfig, dit.New, wanTransformer),

	// Low-rank adapters on a model.
	"models.lora":     func(c *Case) { lora(c, sd3WithAdapter) },
	"models.wan_lora": func(c *Case) { lora(c, wanWithAdapter) },

	// One step of Flow-GRPO on Wan's transformer with an adapter: rollout, advantages, losses, gradients, AdamW.
	"models.wan_flow_grpo_step": wanStep,
}

// Cases of networks: a model folder, inputs in.*, outputs out.*, fixed cotangents cot.* and
// gradients grad.in.*, grad.w.* of the sum of out·cot. Everything is trained, in fp32.

// network is one such case on its way through a model.
type network struct {
	*Case
	params *nn.Params
	source nn.Source
	tape   *autograd.Tape
	inputs map[string]operand
	outs   map[string]operand
	seeds  []autograd.Seed // besides those of the recorded cotangents
}

// how says how a folder is opened.
type how struct {
	names       func(nn.Source) nn.Source // nil: as they are
	source      nn.Source                 // in place of the folder's files; nil: these
	frozen      bool                      // nothing is trained but adapters
	trained     []string                  // layers that are; nil: all
	forwardOnly bool
}

// operand is a value and whether the case has it as NCHW, the engine as NHWC.
type operand struct {
	v       *autograd.Value
	picture bool
}

// runNetwork opens the case's folder, lets forward build the model and run it, and goes
// backward where the case has gradients.
func runNetwork(c *Case, folder string, forward func(n *network)) {
	runFolder(c, folder, how{}, forward)
}

// model is the op of a model in the case's folder: its configuration, its weights, and how it is run.
func model[C, M any](read func(dir string) (C, error), build func(p *nn.Params, config C) M, run func(n *network, m M, config C)) Op {
	return func(c *Case) {
		config := must(read(c.Dir()))
		runNetwork(c, c.Dir(), func(n *network) {
			m := build(n.params, config)
			check(n.params.Check())
			run(n, m, config)
		})
	}
}

func runFolder(c *Case, folder string, how how, forward func(n *network)) {
	be := must(c.open())
	defer be.Close()
	pool := tensor.NewPool(be)
	o := nn.Options{Pool: pool, Source: cmp.Or(how.source, c.source)}
	if o.Source == nil {
		set := must(quant.OpenFolder(folder))
		defer set.Close()
		o.Source = set
	}
	if how.names != nil {
		o.Source = how.names(o.Source)
	}
	if o.Train = how.trained; o.Train == nil && !how.frozen {
		o.Train = []string{".*"}
	}
	params := must(nn.New(o))
	defer params.Free()
	n := &network{Case: c, params: params, source: o.Source, tape: autograd.New(pool, autograd.Options{Train: true}), inputs: map[string]operand{}, outs: map[string]operand{}}
	defer n.tape.Reset()
	forward(n)
	if how.forwardOnly {
		return
	}
	n.backward()
}

// value is an input that the engine has in the case's shape.
func (n *network) value(name string) *autograd.Value {
	return n.input(name, n.Array(name), false)
}

// picture is an input that the case has as NCHW.
func (n *network) picture(name string) *autograd.Value {
	return n.input(name, channelsLast(n.Array(name)), true)
}

func (n *network) input(name string, a Array, picture bool) *autograd.Value {
	t := n.tape.Pool().FromF32(kernels.F32, to[float32](a.Data), a.Shape...)
	defer t.Free()
	v := n.tape.Variable(t)
	n.inputs[name] = operand{v, picture}
	return v
}

// floats are an input's numbers in fp32.
func (n *network) floats(name string) []float32 { return to[float32](n.Floats(name)) }

// rows are an input's rows in fp32.
func (n *network) rows(name string) [][]float32 {
	a := n.Array(name)
	cols := a.Shape[len(a.Shape)-1]
	var rows [][]float32
	for x := to[float32](a.Data); len(x) >= cols && cols > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	return rows
}

// out records an output.
func (n *network) out(name string, v *autograd.Value) { n.output(name, v, false) }

// outPicture records an output that the case has as NCHW.
func (n *network) outPicture(name string, v *autograd.Value) { n.output(name, v, true) }

func (n *network) output(name string, v *autograd.Value, picture bool) {
	n.outs[name] = operand{v, picture}
	n.Put(name, n.array(v.Shape(), v.F32(), picture))
}

// array is numbers of the engine as the case has them.
func (n *network) array(shape []int, x []float32, picture bool) Array {
	a := Array{Shape: append([]int(nil), shape...), Data: to[float64](x)}
	if picture {
		return channelsFirst(a)
	}
	return a
}

// putGrad puts the gradient of a weight.
func (n *network) putGrad(name, weight string) {
	g := must(n.params.Grad(weight))
	n.Put(name, Array{Shape: g.Shape, Data: to[float64](must(g.Float32(nil)))})
}

// backward runs from the case's cotangents to the gradients that it lists.
func (n *network) backward() {
	if !n.Has("grad") {
		return
	}
	seeds := n.seeds
	for name, o := range n.outs {
		cot := "cot." + strings.TrimPrefix(name, "out.")
		if !n.Has(cot) {
			continue
		}
		a := n.Array(cot)
		if o.picture {
			a = channelsLast(a)
		}
		seeds = append(seeds, autograd.Seed{Of: o.v, Grad: to[float32](a.Data)})
	}
	n.tape.Backward(seeds...)
	for _, name := range n.Strings("grad") {
		if weight, ok := strings.CutPrefix(name, "grad.w."); ok {
			n.putGrad(name, weight)
			continue
		}
		in := strings.TrimPrefix(name, "grad.")
		o, ok := n.inputs[in]
		if !ok {
			failf("a gradient is recorded for %q, which the network does not read", in)
		}
		g := o.v.Grad()
		if g == nil {
			failf("nothing reached the gradient of %q", in)
		}
		n.Put(name, n.array(g.Shape(), g.F32(), o.picture))
	}
}

// channelsLast takes NCHW to NHWC, and clips' NCTHW to NTHWC.
func channelsLast(a Array) Array {
	if len(a.Shape) == 5 {
		return framesFirst(a)
	}
	if len(a.Shape) != 4 {
		return a
	}
	return moveAxes(a, 0, 2, 3, 1)
}

// channelsFirst takes NHWC to NCHW, and clips' NTHWC to NCTHW.
func channelsFirst(a Array) Array {
	if len(a.Shape) == 5 {
		return channelsBeforeFrames(a)
	}
	if len(a.Shape) != 4 {
		return a
	}
	return moveAxes(a, 0, 3, 1, 2)
}

// moveAxes makes axis i of the result axis order[i] of a, whose axes are four.
func moveAxes(a Array, order ...int) Array {
	old := [4]int{a.Shape[1] * a.Shape[2] * a.Shape[3], a.Shape[2] * a.Shape[3], a.Shape[3], 1}
	var n, stride [4]int
	for i, o := range order {
		n[i], stride[i] = a.Shape[o], old[o]
	}
	data := make([]float64, 0, len(a.Data))
	for i := range n[0] {
		for j := range n[1] {
			for k := range n[2] {
				for l := range n[3] {
					data = append(data, a.Data[i*stride[0]+j*stride[1]+k*stride[2]+l*stride[3]])
				}
			}
		}
	}
	return Array{Shape: n[:], Data: data}
}

func sd3Transformer(n *network, m *mmdit.Model, _ mmdit.Config) {
	x := n.picture("in.hidden_states")
	text, pooled := n.value("in.encoder_hidden_states"), n.value("in.pooled_projections")
	n.outPicture("out.sample", m.Forward(n.tape, x, text, pooled, n.floats("in.timestep")))
}

func fluxTransformer(n *network, m *flux.Model, config flux.Config) {
	in := flux.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Pooled: n.value("in.pooled_projections"),
		Time: n.floats("in.timestep"), Places: n.rows("in.img_ids"), TextPlaces: n.rows("in.txt_ids")}
	if config.Guidance {
		in.Guidance = n.floats("in.guidance")
	}
	n.out("out.sample", m.Forward(n.tape, in))
}

func unetCondition(n *network, m *unet.Model, config unet.Config) {
	in := unet.Inputs{Latents: n.picture("in.sample"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep")}
	if config.Added != "" {
		in.Pooled, in.Sizes = n.value("in.text_embeds"), n.rows("in.time_ids")
	}
	n.outPicture("out.sample", m.Forward(n.tape, in))
}

func flux2Transformer(n *network, m *flux2.Model, config flux2.Config) {
	in := flux2.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep"),
		Places: n.rows("in.img_ids"), TextPlaces: n.rows("in.txt_ids")}
	in.Places, in.TextPlaces = in.Places[:in.Latents.Dim(1)], in.TextPlaces[:in.Text.Dim(1)] // those of all samples are the same
	if config.Guidance {
		in.Guidance = n.floats("in.guidance")
	}
	n.out("out.sample", m.Forward(n.tape, in))
}

// zImageTransformer has samples of sizes of their own.
func zImageTransformer(n *network, m *zimage.Model, _ zimage.Config) {
	for i, t := range n.floats("in.timestep") {
		x := n.tape.Permute(n.value(fmt.Sprintf("in.hidden_states.%d", i)), 1, 2, 3, 0) // which the case has as channels, frame, row, column
		y := m.Forward(n.tape, x, n.oneSample(fmt.Sprintf("in.encoder_hidden_states.%d", i)), t)
		n.out(fmt.Sprintf("out.sample.%d", i), n.tape.Permute(y, 3, 0, 1, 2))
	}
}

// oneSample is an input of rows as those of one sample.
func (n *network) oneSample(name string) *autograd.Value {
	x := n.value(name)
	rows := times(x.Dim(0), func(i int) int32 { return int32(i) })
	return n.tape.Gather(x, rows, 1, len(rows))
}

func qwenImageTransformer(n *network, m *qwenimage.Model, _ qwenimage.Config) {
	in := qwenimage.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep")}
	shapes, samples := n.Ints("img_shapes"), len(in.Time)
	for shapes = shapes[:len(shapes)/samples]; len(shapes) > 2; shapes = shapes[3:] {
		in.Pictures = append(in.Pictures, qwenimage.Picture{Rows: shapes[1], Cols: shapes[2]})
	}
	in.Words = lengths(n.Array("in.encoder_hidden_states_mask"))
	n.out("out.sample", m.Forward(n.tape, in))
}

// lengths are the numbers of ones at the beginning of a mask's rows.
func lengths(mask Array) []int32 {
	each := mask.Shape[1]
	var all []int32
	for row := mask.Data; len(row) > 0; row = row[each:] {
		n := int32(0)
		for int(n) < each && row[n] != 0 {
			n++
		}
		all = append(all, n)
	}
	return all
}

func autoencoderKL(c *Case) {
	config := must(vae.ReadConfig(c.Dir()))
	runFolder(c, c.Dir(), how{names: vae.Names}, func(n *network) {
		m := vae.New(n.params, config)
		check(n.params.Check())
		mean, logVariance := m.Encode(n.tape, n.picture("in.image"))
		n.outPicture("out.mean", mean)
		n.outPicture("out.latent", m.Scaled(n.tape, mean))
		n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))

		n.cut("logvar", logVariance, clampLogVariance)
	})
}

// cut records an output whose numbers are bounded: backward begins where the bounds let them through.
func (n *network) cut(name string, v *autograd.Value, bound func(x []float32) []float32) {
	x := v.F32()
	y := bound(x)
	n.Put("out."+name, n.array(v.Shape(), y, true))
	if !n.Has("cot." + name) {
		return
	}
	g := to[float32](channelsLast(n.Array("cot." + name)).Data)
	for i := range g {
		if x[i] != y[i] {
			g[i] = 0
		}
	}
	n.seeds = append(n.seeds, autograd.Seed{Of: v, Grad: g})
}

// autoencoderWan runs clip by clip: each has a causal cache of its own.
func autoencoderWan(n *network, m *clips.Model, _ clips.Config) {
	// clipwise runs f on every clip of an input, and joins its results.
	clipwise := func(name string, f func(clip *autograd.Value) []*autograd.Value) (joined []*autograd.Value) {
		v := n.clip(name)
		var made [][]*autograd.Value // by output, then by clip
		for i := range v.Dim(0) {
			for k, out := range f(n.tape.Reshape(n.tape.Part(v, i, i+1), v.Shape()[1:]...)) {
				if i == 0 {
					made = append(made, nil)
				}
				made[k] = append(made[k], n.tape.Reshape(out, append([]int{1}, out.Shape()...)...))
			}
		}
		for _, clips := range made {
			joined = append(joined, n.tape.Concat(0, clips...))
		}
		return joined
	}
	encoded := clipwise("in.video", func(clip *autograd.Value) []*autograd.Value {
		mean, logVariance := m.Encode(n.tape, clip)
		return []*autograd.Value{mean, m.Scaled(n.tape, mean), logVariance}
	})
	n.outPicture("out.mean", encoded[0])
	n.outPicture("out.latent", encoded[1])
	n.cut("logvar", encoded[2], clampLogVariance)
	decoded := clipwise("in.latent", func(clip *autograd.Value) []*autograd.Value {
		return []*autograd.Value{m.Decode(n.tape, clip)}
	})
	n.cut("decoded", decoded[0], func(x []float32) []float32 {
		return each(x, func(v float32) float32 { return min(max(v, -1), 1) })
	})
}

func autoencoderTiny(n *network, m *vae.Tiny, _ vae.TinyConfig) {
	n.outPicture("out.latent", m.Encode(n.tape, n.picture("in.image")))
	n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))
}

// clampLogVariance bounds the logarithm of the variance, as upstream does before it draws.
func clampLogVariance(x []float32) []float32 {
	return each(x, func(v float32) float32 { return min(max(v, -30), 20) })
}

// ids are an input's rows of tokens.
func (n *network) ids(name string) [][]int32 {
	return each(n.rows(name), to[int32])
}

func clipText(c *Case) {
	config := must(clip.ReadTextConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		projected := c.Op == "models.clip_text_projection"
		m := clip.NewText(n.params, config, projected)
		check(n.params.Check())
		out := m.Forward(n.tape, n.ids("in.input_ids"))
		n.out("out.hidden_m2", out.Before)
		n.out("out.last", out.Last)
		if projected {
			n.out("out.text_embeds", out.Projected)
		} else {
			n.out("out.pooled", out.Pooled)
		}
	})
}

func clipModel(n *network, m *clip.Model, _ clip.Config) {
	text := m.Text.Forward(n.tape, n.ids("in.input_ids")).Projected
	image := m.Vision.Forward(n.tape, n.picture("in.pixel_values"))
	n.out("out.text_features", text)
	n.out("out.image_features", image.Projected)
	n.out("out.vision_last", image.Last)
	n.out("out.vision_pooled", image.Pooled)

	// The logits are numbers, and backward begins at their inputs.
	scale := m.Scale(n.tape)
	s := clip.Similarity(featureRows(image.Projected), featureRows(text), float64(scale.F32()[0]))
	n.Put("out.logits_per_image", table(s.Logits))
	if !n.Has("cot.logits_per_image") {
		return
	}
	var g [][]float64
	for x, cols := n.Floats("cot.logits_per_image"), text.Dim(0); len(x) > 0; x = x[cols:] {
		g = append(g, x[:cols])
	}
	di, dt, ds := s.Gradients(g)
	n.seeds = append(n.seeds, seed(image.Projected, di), seed(text, dt), seed(scale, [][]float64{{ds}}))
}

// featureRows are the rows of a value.
func featureRows(v *autograd.Value) [][]float64 {
	var rows [][]float64
	for x, cols := to[float64](v.F32()), v.Dim(-1); len(x) > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	return rows
}

func table(rows [][]float64) Array {
	a := Array{Shape: []int{len(rows), len(rows[0])}}
	for _, r := range rows {
		a.Data = append(a.Data, r...)
	}
	return a
}

func seed(v *autograd.Value, rows [][]float64) autograd.Seed {
	return autograd.Seed{Of: v, Grad: to[float32](table(rows).Data)}
}

func t5Encoder(n *network, m *t5.Model, _ t5.Config) {
	var lengths []int32
	if n.Has("in.attention_mask") {
		for _, row := range n.ids("in.attention_mask") {
			seen := int32(0)
			for _, bit := range row {
				seen += bit
			}
			lengths = append(lengths, seen)
		}
	}
	n.out("out.last", m.Forward(n.tape, n.ids("in.input_ids"), lengths))
}

// clip is an input that the case has as NCTHW.
func (n *network) clip(name string) *autograd.Value {
	return n.input(name, framesFirst(n.Array(name)), true)
}

// framesFirst takes NCTHW to NTHWC.
func framesFirst(a Array) Array {
	b, c, t, h, w := a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3], a.Shape[4]
	out := moveAxes(Array{Shape: []int{b, c, t, h * w}, Data: a.Data}, 0, 2, 3, 1)
	out.Shape = []int{b, t, h, w, c}
	return out
}

// channelsBeforeFrames takes NTHWC to NCTHW.
func channelsBeforeFrames(a Array) Array {
	b, t, h, w, c := a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3], a.Shape[4]
	out := moveAxes(Array{Shape: []int{b, t, h * w, c}, Data: a.Data}, 0, 3, 1, 2)
	out.Shape = []int{b, c, t, h, w}
	return out
}

func wanTransformer(n *network, m *dit.Model, _ dit.Config) {
	n.wan(m)
}

// wan runs the transformer at the case's inputs.
func (n *network) wan(m *dit.Model) {
	in := dit.Inputs{Latents: n.clip("in.hidden_states"), Text: n.value("in.encoder_hidden_states")}
	if m.Image > 0 {
		in.Picture = n.value("in.encoder_hidden_states_image")
	}

	in.Time = framesTimes(n.Array("in.timestep"), in.Latents.Dim(1))
	n.outPicture("out.sample", m.Forward(n.tape, in))
}

// framesTimes are times of the tokens of frames, [B, tokens], as one a frame; times of samples are as
// they are.
func framesTimes(a Array, frames int) []float32 {
	if len(a.Shape) < 2 {
		return to[float32](a.Data)
	}
	each := a.Shape[1] / frames
	var times []float32
	for i := 0; i < len(a.Data); i += each {
		for _, t := range a.Data[i : i+each] {
			if t != a.Data[i] {
				failf("tokens of one frame have the times %v and %v", a.Data[i], t)
			}
		}
		times = append(times, float32(a.Data[i]))
	}
	return times
}

// lora runs a base model with an adapter in PEFT's layout. Upstream's results for the base alone, and for the other
// layouts, are compared here too.
func lora(c *Case, open openedModel) {
	l := loraCase{c, filepath.Join(c.Dir(), c.String("base")), open}
	for layout, want := range map[string]string{"": "base.sample", "diffusers": "loaded.diffusers.sample", "diffusers_metadata": "loaded.diffusers_metadata.sample"} {
		if !c.Has(want) {
			continue
		}
		l.run(layout, true, func(n *network) { n.near("out.sample", want) })
	}
	l.run("peft", false, func(*network) {})
}

// An openedModel makes a model of a folder, and says how it is run at the case's inputs.
type openedModel func(n *network, dir string) (run func())

func sd3WithAdapter(n *network, dir string) func() {
	config := must(mmdit.ReadConfig(dir))
	m := mmdit.New(n.params, config)
	check(n.params.Check())
	return func() { sd3Transformer(n, m, config) }
}

func wanWithAdapter(n *network, dir string) func() {
	m := dit.New(n.params, must(dit.ReadConfig(dir)))
	check(n.params.Check())
	return func() { n.wan(m) }
}

type loraCase struct {
	*Case
	base string
	open openedModel
}

// run opens the base, puts the adapter of a layout on it ("" for none), and runs it.
func (l loraCase) run(layout string, forwardOnly bool, after func(n *network)) {
	runFolder(l.Case, l.base, how{frozen: true, forwardOnly: forwardOnly}, func(n *network) {
		run := l.open(n, l.base)
		if layout != "" {
			a := must(peft.Open(filepath.Join(l.Dir(), l.String(layout)), "transformer"))
			defer a.Close()
			must(a.AddTo(n.params))
		}
		run()
		after(n)
	})
}

// near compares an output with a tensor of another name, to a part in ten thousand of
// the largest.
func (n *network) near(out, name string) {
	o, want := n.outs[out], n.Array(name)
	got := n.array(o.v.Shape(), o.v.F32(), o.picture)
	largest := 0.0
	for _, x := range want.Data {
		largest = max(largest, math.Abs(x))
	}
	for i, x := range want.Data {
		if d := math.Abs(got.Data[i] - x); !(d <= 1e-4*largest) {
			failf("%s[%d] is %g, recorded %g", name, i, got.Data[i], x)
		}
	}
}

// A stepCase is one on its way through the step.
type stepCase struct {
	*network
	model      *dit.Model
	adapters   *nn.Adapters
	schedule   sde.Schedule
	rows       []sde.Row
	shape      []int         // of a clip's latents, [T, H, W, C]
	states     [][][]float64 // by step and row, before it; the last are the finals
	old        [][]float64   // log-probabilities by step and row
	advantages []float64
	text, none Array
}

func wanStep(c *Case) {
	base := filepath.Join(c.Dir(), c.String("base"))
	config := must(dit.ReadConfig(base))
	runFolder(c, base, how{frozen: true, forwardOnly: true}, func(n *network) {
		s := &stepCase{network: n, model: dit.New(n.params, config)}
		check(n.params.Check())
		a := must(peft.Open(filepath.Join(c.Dir(), c.String("peft")), "transformer"))
		defer a.Close()
		s.adapters = must(a.AddTo(n.params))
		s.roll()
		s.update()
	})
}

// ask is the guided velocity at rows' latents; back takes gradients at it to the adapters, where the tape
// records.
func (s *stepCase) ask(tp *autograd.Tape, rows [][]float64, time float64) (v [][]float64, back func(grads [][]float64)) {
	b, scale := len(rows), s.Float("guidance_scale")
	up := func(x []float64, shape ...int) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, to[float32](x), shape...)
		defer t.Free()
		return tp.Input(t)
	}
	said := func(text []float64) *autograd.Value {
		return s.model.Forward(tp, dit.Inputs{Latents: up(flat(rows), append([]int{b}, s.shape...)...), Text: up(text, b, s.text.Shape[1], s.text.Shape[2]),
			Time: slices.Repeat([]float32{float32(time)}, b)})
	}
	u, c := said(slices.Repeat(s.none.Data, b)), said(s.text.Data)
	each := len(rows[0])
	cut := func(x *autograd.Value) [][]float64 { return samples(Array{[]int{b, each}, to[float64](x.F32())}) }
	us, cs := cut(u), cut(c)
	for i := range rows {
		v = append(v, diffusion.Guide(us[i], cs[i], scale))
	}
	return v, func(grads [][]float64) {
		var du, dc []float64
		for i, g := range grads {
			gu, gc := diffusion.GuideGrad(us[i], cs[i], scale, 0, g)
			du, dc = append(du, gu...), append(dc, gc...)
		}
		tp.Backward(autograd.Seed{Of: u, Grad: to[float32](du)}, autograd.Seed{Of: c, Grad: to[float32](dc)})
	}
}

// roll samples every row, and compares.
func (s *stepCase) roll() {
	z := s.Array("in.z")
	s.text, s.none = s.Array("in.prompt_embeds"), s.Array("in.negative_prompt_embeds")
	s.schedule = sde.UniPCFP32(s.Float("flow_shift"), s.Int("steps"), false)
	first := framesFirst(z)
	s.shape = first.Shape[1:]
	noise := s.Array("in.noise")
	each := len(noise.Data) / noise.Shape[0]
	s.states = [][][]float64{samples(first)}
	tp := autograd.New(s.tape.Pool(), autograd.Options{})
	for step, t := range s.schedule.Timesteps {
		row := sde.FlowWan(s.schedule, step, 1)
		s.rows = append(s.rows, row)
		now := s.states[step]
		v, _ := s.ask(tp, now, t)
		tp.Reset()
		drawn := samples(framesFirst(Array{z.Shape, noise.Data[step*each : (step+1)*each]}))
		var next [][]float64
		var lps []float64
		for i, x := range now {
			mean := row.Mean(seen(x, v[i]))
			to := to[float64](to[float32](row.Draw(mean, drawn[i])))
			next, lps = append(next, to), append(lps, row.LogProb(mean, to))
		}
		s.states, s.old = append(s.states, next), append(s.old, lps)
	}
	s.putRoll(z.Shape)

	s.advantages = must(numpyGroup(false).Of(s.Ints("in.groups"), s.Floats("in.rewards")))
	var all []float64
	for _, a := range s.advantages {
		all = append(all, slices.Repeat([]float64{a}, len(s.rows))...)
	}
	s.Put("out.advantages", Array{[]int{z.Shape[0], len(s.rows)}, all})
}

// seen is the history of one step.
func seen(x, v []float64) *sde.History {
	var h sde.History
	h.Push(x, v)
	return &h
}

func (s *stepCase) putRoll(shape []int) {
	var latents, lps []float64
	for i := range shape[0] {
		for _, state := range s.states {
			latents = append(latents, channelsBeforeFrames(Array{append([]int{1}, s.shape...), state[i]}).Data...)
		}
		for _, at := range s.old {
			lps = append(lps, at[i])
		}
	}
	s.Put("out.latents", Array{append([]int{shape[0], len(s.states)}, shape[1:]...), latents})
	s.Put("out.log_probs", Array{[]int{shape[0], len(s.old)}, lps}, "out.sigmas", s.schedule.Sigmas)
	s.Put("out.timesteps", s.schedule.Timesteps)
}

// update takes the gradient of the steps' mean loss, moves the adapters, and looks again.
func (s *stepCase) update() {
	s.judge("out.", true)
	for _, name := range s.Strings("grad") {
		s.putGrad(name, name[len("grad.w."):])
	}
	o := optim.Defaults()
	o.Betas, o.Eps, o.WeightDecay = [2]float64{0.9, 0.999}, 1e-8, s.Float("weight_decay")
	mover := optim.NewOptimizer(s.Float("max_grad_norm"), optim.Group{Params: s.adapters.Params(), Rate: 1, Options: o})
	defer mover.Free()
	s.Put("out.grad_norm", must(mover.Step(s.Float("lr"))))
	for _, t := range s.adapters.Tensors("out.after.") {
		s.Put(t.Name, Array{Shape: t.Shape, Data: to[float64](must(t.Float32(nil)))})
	}
	s.judge("out.second.", false)
}

// judge puts the losses of all trained steps under names that begin with tag.
func (s *stepCase) judge(tag string, train bool) {
	steps, b := s.Int("train_steps"), len(s.advantages)
	terms := map[string][]float64{}
	for step := range steps {
		r, lps := s.step(step, steps, train)
		for name, x := range map[string][]float64{"ratio": r.Ratio, "log_prob": lps, "loss": {r.Loss}, "policy_loss": {r.Policy}, "kl_loss": {r.KL}} {
			terms[name] = append(terms[name], x...)
		}
	}
	for name, x := range terms {
		shape := []int{steps}
		if name == "ratio" || name == "log_prob" {
			shape = append(shape, b)
		}
		s.Put(tag+name, Array{shape, x})
	}
}

// step is one step's loss; its gradient, over the number of steps, goes to the adapters.
func (s *stepCase) step(step, steps int, train bool) (r loss.Result, lps []float64) {
	row, before, after := s.rows[step], s.states[step], s.states[step+1]
	tp := autograd.New(s.tape.Pool(), autograd.Options{Train: train})
	defer tp.Reset()
	t := loss.Terms{Old: s.old[step], Advantage: s.advantages, KLDenominator: []float64{2 * row.Noise * row.Noise}}
	t.MeanRef = s.reference(step)
	v, back := s.ask(tp, before, s.schedule.Timesteps[step])
	for i, x := range before {
		mean := row.Mean(seen(x, v[i]))
		t.Mean, lps = append(t.Mean, mean), append(lps, row.LogProb(mean, after[i]))
	}
	t.LogProb = lps
	o := clipOptions(s.Case)
	o.KLWeight = s.Float("beta")
	if r = must(o.Of(t)); !train {
		return r, lps
	}
	grads := make([][]float64, len(before))
	for i, x := range before {
		slope, way := row.Slope(seen(x, v[i])), row.LogProbGrad(t.Mean[i], after[i])
		for k := range slope {
			g := r.GradLogProb[i] * way[k]
			if r.GradMean != nil { // a term reads the means
				g += r.GradMean[i][k]
			}
			grads[i] = append(grads[i], slope[k]*g/float64(steps))
		}
	}
	back(grads)
	return r, lps
}

// reference is the means of the base alone.
func (s *stepCase) reference(step int) (means [][]float64) {
	s.adapters.On = false
	defer func() { s.adapters.On = true }()
	tp := autograd.New(s.tape.Pool(), autograd.Options{})
	defer tp.Reset()
	v, _ := s.ask(tp, s.states[step], s.schedule.Timesteps[step])
	for i, x := range s.states[step] {
		means = append(means, s.rows[step].Mean(seen(x, v[i])))
	}
	return means
}
