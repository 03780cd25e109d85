package pipeline

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/edition"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// The denoiser is a network, or two that take turns.
//
// Wan 2.2's A14B has two networks of one architecture: the first while a step's time is at or above
// boundary_ratio · 1000, then the second, each with a guidance scale of its own. Upstream takes the first
// scale for both where the second is missing; published pairs differ (4 and 3), so here that is refused.

// denoiser is the networks, and their inputs.
type denoiser struct {
	*loader
	networkSpec
	texts    textSpec
	pictures pictureSpec
	channels int // of latents
	experts  [mostExperts]expert
	uploaded uploaded
	aside    autograd.Aside
}

// AsideBytes is the most host memory that inputs of blocks took.
func (d *denoiser) AsideBytes() int { return d.aside.Peak }

// mostExperts is how many networks take turns at most.
const mostExperts = 2

// Experts are some of the networks.
type Experts [mostExperts]bool

// expert is a network in memory, loaded at its first use.
type expert struct {
	network *network
	forward forward
}

// Component is the denoiser's folder; of two networks, the first one's.
func (d *denoiser) Component() string { return d.parts[0] }

// Targets are the layers that an adapter is usually for, by the ends of their names.
func (d *denoiser) Targets() []string { return d.targets }

// Experts is how many networks take turns.
func (d *denoiser) Experts() int { return len(d.parts) }

// Expert is the network for a time: 0, or of two networks perhaps 1.
func (d *denoiser) Expert(time float64) int {
	if len(d.parts) == 1 || time >= d.boundary {
		return 0
	}
	return 1
}

// expertOf is the network for points, which must all be on one side of the boundary.
func (d *denoiser) expertOf(points []Point) (int, error) {
	first := d.Expert(points[0].Time)
	for _, q := range points[1:] {
		if d.Expert(q.Time) != first {
			return 0, fmt.Errorf("questions at the times %v and %v in one batch: they are for different networks, with the boundary at %v", points[0].Time, q.Time, d.boundary)
		}
	}
	return first, nil
}

// loaded is a network, in memory.
func (d *denoiser) loaded(i int) (*expert, error) {
	e := &d.experts[i]
	if e.network != nil {
		return e, nil
	}
	train := d.Train
	if d.Frozen[i] {
		train = nil
	}
	names := func(stored nn.Source) (nn.Source, error) {
		stored, err := d.quantized(stored, d.parts[i])
		if w := d.Weights[i]; w != nil && err == nil {
			stored = edition.Over(stored, w)
		}
		return stored, err
	}
	o := nn.Options{Math: d.Precision.math(), Train: train, Home: d.Memory.Home, Ring: d.ring(), Stock: d.Memory.Stock, Values: d.Memory.Values[i]}
	if dir, err := d.folder.part(d.parts[i]); err == nil && d.Pool.Bare() {
		if o.Compressed, err = quant.Absent(d.Quantize, dir); err != nil {
			return nil, err
		}
	}
	n, err := d.load(d.parts[i], o, names, func(params *nn.Params) { e.forward = d.build(params) })
	if err != nil {
		e.forward = nil
		return nil, err
	}
	e.network = n
	return e, nil
}

// Denoiser is the network's parameters, loaded at the first call; of two networks, the first one's.
func (d *denoiser) Denoiser() (*nn.Params, error) { return d.Network(0) }

// Network is the parameters of one of the networks that take turns, loaded at the first call.
func (d *denoiser) Network(i int) (*nn.Params, error) {
	if i >= d.Experts() {
		return nil, fmt.Errorf("network %d of a pipeline that has %d", i, d.Experts())
	}
	e, err := d.loaded(i)
	if err != nil {
		return nil, err
	}
	return e.network.params, nil
}

// AddLoRA puts an adapter of PEFT's or diffusers' layout on the denoiser. Where two networks take turns, each has its
// own: that of the second lies in a folder below the first one's that is called as the second is, transformer_2, or
// beside NAME.safetensors in NAME.transformer_2.safetensors, as 'export' writes both; one of the two may be absent.
func (d *denoiser) AddLoRA(path string) error {
	found := false
	parts := d.parts
	for i := range parts {
		at, there := adapterOf(path, i, parts)
		if !there {
			continue
		}
		found = true
		params, err := d.Network(i)
		if err != nil {
			return err
		}
		a, err := peft.Open(at, d.parts[0]) // which is the name of either network in diffusers' files
		if err != nil {
			return err
		}
		_, err = a.AddTo(params)
		if err = errors.Join(err, a.Close()); err != nil {
			return err
		}
	}
	if !found {
		_, err := peft.Files(path)
		return err
	}
	return nil
}

// adapterOf is where the adapter of network i lies, and whether there is one. A folder that is called as the second
// network must have one, so that no half of a pair is left out in silence.
func adapterOf(path string, i int, parts []string) (at string, there bool) {
	info, err := os.Stat(path)
	file := err == nil && !info.IsDir()
	if i == 0 {
		_, err := peft.Files(path)
		second := file && len(parts) > 1 && peft.Second(path, parts[1]) == path
		return path, err == nil && !second
	}
	at = filepath.Join(path, parts[i])
	if file {
		at = peft.Second(path, parts[i])
	}
	info, err = os.Stat(at)
	return at, err == nil && info.IsDir() != file
}

// adapt puts adapters on all networks.
func (d *denoiser) adapt(l nn.LoRA) error {
	for i := range d.Experts() {
		params, err := d.Network(i)
		if err != nil {
			return err
		}
		if _, err := params.AddLoRA(l); err != nil {
			return err
		}
	}
	return nil
}

// Reclaimed says that passing tensors of the pool are no longer there (tensor.Pool.Attempt).
func (d *denoiser) Reclaimed() { d.uploaded = uploaded{} }

// FreeDenoiser lets the networks' weights go, and adapters with them.
func (d *denoiser) FreeDenoiser() error {
	err := errors.Join(d.experts[0].network.close(), d.experts[1].network.close())
	d.experts = [mostExperts]expert{}
	d.uploaded.free()
	d.Pool.Trim()
	return err
}

// Guidance is how the prompt is followed.
type Guidance struct {
	Scale    float64 // of two outputs; 1 or less: one output alone
	Norm     bool    // the combined output keeps the length of the conditional one, token by token
	Most     float64 // the combined output is no longer than a multiple of the conditional one; 0: any length
	Embedded float64 // the scale that the network reads as an input
	// Until, where it is not 0, is the clean share behind which one output alone is asked for.
	Until float64
	// Second is the Scale of the second network, of pipelines that have two.
	Second float64
}

// Combines reports whether every point takes two runs of the network.
func (g Guidance) Combines() bool { return g.Scale > 1 }

// CheckGuidance refuses scales that the pipeline's networks do not have, or lack.
func (d *denoiser) CheckGuidance(g Guidance) error {
	switch two := d.Experts() == 2; {
	case two && g.Second == 0:
		return errors.New("this pipeline has two networks, each with a guidance scale: the second one's is missing (Wan 2.2 was published with 4 and 3; 1 is none)")
	case !two && g.Second != 0:
		return fmt.Errorf("a second guidance scale of %v: this pipeline has one network", g.Second)
	}
	return nil
}

// guidanceOf is a network's guidance.
func (d *denoiser) guidanceOf(i int, g Guidance) Guidance {
	if i == 1 {
		g.Scale = g.Second
	}
	g.Second = 0
	return g
}

// combine is the guided output of two.
func (g Guidance) combine(uncond, cond []float64, width int) []float64 {
	switch {
	case g.Norm:
		return diffusion.GuideNorm(uncond, cond, g.Scale, width)
	case g.Most > 0:
		return diffusion.GuideMost(uncond, cond, g.Scale, g.Most)
	}
	return diffusion.Guide(uncond, cond, g.Scale)
}

// slopes takes a gradient at combine's output to the two.
func (g Guidance) slopes(uncond, cond []float64, width int, grad []float64) (du, dc []float64) {
	switch {
	case g.Norm:
		return diffusion.GuideGrad(uncond, cond, g.Scale, width, grad)
	case g.Most > 0:
		return diffusion.GuideMostGrad(uncond, cond, g.Scale, g.Most, grad)
	}
	return diffusion.GuideGrad(uncond, cond, g.Scale, 0, grad)
}

// at is the guidance of points, all of which are on one side of its end.
func (g Guidance) at(points []Point) (Guidance, error) {
	if g.Until == 0 {
		return g, nil
	}
	past := func(q Point) bool { return (1000-q.Time)/1000 > g.Until }
	for _, q := range points {
		if past(q) != past(points[0]) {
			return g, errors.New("questions before and behind the end of guidance in one batch: ask them apart")
		}
	}
	if past(points[0]) {
		g.Scale = 1
	}
	return g, nil
}

// Tape is one for Forward: with train it records the operations for gradients of trained parameters, and checkpoint
// of autograd.AllBlocks blocks are computed again in backward.
func (d *denoiser) Tape(train bool, checkpoint int) *autograd.Tape {
	o := autograd.Options{DType: d.Precision.dtype(), Math: d.Precision.math(), Train: train, Lean: d.Memory.Lean, Checkpoint: checkpoint, Tokens: d.Tokens}
	if d.Memory.Aside {
		o.Aside = &d.aside
	}
	return autograd.New(d.Pool, o)
}

// checkTokens refuses to share the tokens of networks whose attention does not allow it.
func (n networkSpec) checkTokens(class string, t *autograd.Tokens) error {
	switch {
	case t == nil || t.Ranks == 1:
	case n.heads == 0:
		var can []string
		for _, f := range Families() {
			if f.Shared {
				can = append(can, f.Class)
			}
		}
		return fmt.Errorf("ranks cannot share the tokens of a %s (run.tokens); those of %s can be shared\nhint: leave run.tokens out", class, strings.Join(can, ", "))
	case n.timePerFrame:
		return errors.New("ranks cannot share the tokens of a network that reads a time for every frame (expand_timesteps; run.tokens)\nhint: leave run.tokens out")
	case n.heads < t.Ranks:
		return fmt.Errorf("%d ranks cannot share %d heads (run.tokens)\nhint: run.tokens = %d, or less", t.Ranks, n.heads, n.heads)
	}
	return nil
}

// A Point is an input of the network: latents at a time, with a text.
type Point struct {
	Latents []float64
	Time    float64 // the schedule's timestep
	Text    *Text
	// Negative is the text of guidance by two outputs: u + Scale·(c - u). It is not read
	// where Guidance does not combine.
	Negative *Text
	Given    *Given // a clip's input from pictures; nil for nothing
}

// Forward is a forward pass: the network's outputs, one per point, after guidance. Where a clip's first latents are
// given, their outputs are not used: these numbers are 0, and no gradient goes back from them.
type Forward struct {
	Outputs [][]float64

	whole        [][]float64 // with those numbers
	given        []*Given
	guidance     Guidance
	negated      bool
	width        int
	tape         *autograd.Tape
	value        *autograd.Value
	latents      *autograd.Value
	uncond, cond [][]float64 // where they were combined
}

// Forward runs the network at points of one shape, in one batch: with guidance, each point
// without its prompt and then with it, so that gradients, which are added in the batch's order,
// have the same bytes in batches of any size. The tape may record (Tape); a point's
// output has the same bits in any batch, recorded or not. The tape is the caller's to Reset.
func (d *denoiser) Forward(tp *autograd.Tape, at Shape, g Guidance, points []Point) (*Forward, error) {
	return d.forward(tp, at, g, points, (*autograd.Tape).Upload)
}

// forward is Forward with latents that given puts on the tape.
func (d *denoiser) forward(tp *autograd.Tape, at Shape, g Guidance, points []Point, given given) (*Forward, error) {
	if len(points) == 0 {
		return nil, errors.New("no question was asked")
	}
	if err := d.CheckGuidance(g); err != nil {
		return nil, err
	}
	i, err := d.expertOf(points)
	if err != nil {
		return nil, err
	}
	network, err := d.loaded(i)
	if err != nil {
		return nil, err
	}
	g = d.guidanceOf(i, g)
	if g, err = g.at(points); err != nil {
		return nil, err
	}
	in, err := d.inputs(tp, at, g, points, given)
	if err != nil {
		return nil, err
	}
	a := &Forward{guidance: g, width: at.Latents[len(at.Latents)-1], tape: tp, latents: in.latents, value: network.forward(tp, in)}
	all := widened(a.value.F32())
	if a.negated = d.negated; a.negated {
		negate(all)
	}
	n := at.Len()
	row := func(i int) []float64 { return all[i*n : (i+1)*n : (i+1)*n] }
	for i, q := range points {
		var out []float64
		if g.Combines() {
			u, c := row(2*i), row(2*i+1)
			a.uncond, a.cond = append(a.uncond, u), append(a.cond, c)
			out = g.combine(u, c, a.width)
		} else {
			out = row(i)
		}
		a.whole, a.given, a.Outputs = append(a.whole, out), append(a.given, q.Given), append(a.Outputs, q.Given.Still(out))
	}
	return a, nil
}

// inputs are a batch for the network, one row of each field per sample.
type inputs struct {
	latents, text, pooled *autograd.Value
	times                 []float32       // the schedule's timesteps
	guidance              []float32       // where the network reads one
	beside, seen          *autograd.Value // channels beside latents, and tokens of pictures, where clips are given some
	at                    Shape
	words                 []int32         // tokens of each row's text, where they have lengths of their own
	sources               *autograd.Value // latents of pictures that the rows are made of, and their tokens' places
	grids                 []grid
}

// forward runs a network: F32 of the latents' shape.
type forward func(tp *autograd.Tape, in inputs) *autograd.Value

// inputs uploads a batch.
func (d *denoiser) inputs(tp *autograd.Tape, at Shape, g Guidance, points []Point, given given) (inputs, error) {
	texts, each := make([]*Text, 0, 2*len(points)), 1
	for _, q := range points {
		if g.Combines() {
			texts, each = append(texts, q.Negative), 2
		}
		texts = append(texts, q.Text)
	}
	var latents []float32
	in := inputs{at: at}
	asked := make([]Point, len(texts)) // a row each
	for i, t := range texts {
		q := points[i/each]
		switch {
		case t == nil:
			return in, errors.New("a question has no text: encode the prompt, and the negative one where guidance combines two outputs")
		case t.Tokens != texts[0].Tokens && !d.texts.ragged || t.Width != texts[0].Width || len(t.Pooled) != len(texts[0].Pooled):
			return in, fmt.Errorf("texts of %d x %d and %d x %d in one batch", texts[0].Tokens, texts[0].Width, t.Tokens, t.Width)
		case len(q.Latents) != at.Len():
			return in, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(q.Latents), at.Width, at.Height, at.Len())
		}
		asked[i] = q
		if d.texts.ragged {
			in.words = append(in.words, int32(t.Tokens))
		}
		latents = append(latents, narrowed(q.Given.Finish(q.Latents))...)
		in.times = append(in.times, d.timesOf(q, at)...)
		if d.embedded {
			in.guidance = append(in.guidance, float32(g.Embedded))
		}
	}
	in.latents = given(tp, "latents", latents, append([]int{len(texts)}, at.Latents...)...)
	in.text, in.pooled = d.uploaded.on(tp, texts)
	if err := d.putGiven(tp, &in, asked); err != nil {
		return in, err
	}
	return in, d.checkShares(in)
}

// checkShares refuses tokens of which a rank would have none: each stream that ranks share needs one for every rank.
func (d *denoiser) checkShares(in inputs) error {
	if d.Tokens == nil || d.Tokens.Ranks == 1 {
		return nil
	}
	most, of := max(in.at.Tokens, 1), fmt.Sprintf("%d tokens of a picture", in.at.Tokens)
	if !d.textApart {
		most, of = min(most, in.text.Dim(1)), fmt.Sprintf("%s and %d of its text", of, in.text.Dim(1))
	}
	if in.sources != nil {
		most, of = min(most, in.sources.Dim(1)), fmt.Sprintf("%s and %d of its sources", of, in.sources.Dim(1))
	}
	if most < d.Tokens.Ranks {
		return fmt.Errorf("%d ranks cannot share %s (run.tokens)\nhint: run.tokens = %d, or less", d.Tokens.Ranks, of, most)
	}
	return nil
}

// timesOf is the network's input of a point's time: one number, or one a frame of latents, 0 for a frame that is
// given.
func (d *denoiser) timesOf(q Point, at Shape) []float32 {
	if !d.timePerFrame {
		return []float32{float32(q.Time)}
	}
	times := make([]float32, max(1, at.Times))
	for i := range times {
		times[i] = float32(q.Time)
	}
	if q.Given != nil && q.Given.first != nil {
		times[0] = 0
	}
	return times
}

// putGiven puts the rows' inputs from pictures on the tape.
func (d *denoiser) putGiven(tp *autograd.Tape, in *inputs, rows []Point) error {
	if d.pictures.read == besideTokens {
		return d.putSources(tp, in, rows)
	}
	var channels, tokens []float32
	for _, q := range rows {
		switch g := q.Given; {
		case d.pictures.read == besideLatents && (g == nil || g.channels == nil):
			return errors.New("this network reads a picture with every clip: give one (Give)")
		case d.pictures.read == noPictures && g != nil:
			return errors.New("a picture was given to a network that reads none")
		case d.pictures.read == besideLatents:
			channels, tokens = append(channels, g.channels...), append(tokens, g.tokens...)
		}
	}
	if channels == nil {
		return nil
	}
	at, n := in.at, len(rows)
	wide := len(channels) / (n * at.Times * at.Rows * at.Cols)
	in.beside = tp.Upload("given frames", channels, n, at.Times, at.Rows, at.Cols, wide)
	if tokens != nil {
		seen := rows[0].Given.seen
		in.seen = tp.Upload("tokens of pictures", tokens, n, seen, len(tokens)/(n*seen))
	}
	return nil
}

// putSources puts on the tape the latents of pictures that rows are made of.
func (d *denoiser) putSources(tp *autograd.Tape, in *inputs, rows []Point) error {
	var all []float32
	for _, q := range rows {
		switch g := q.Given; {
		case !SameSizes(g, rows[0].Given):
			return errors.New("pictures of different sizes are given in one batch: ask for each size by itself")
		case g == nil || len(g.grids) == 0:
			if d.pictures.sources.must {
				return errors.New("this network makes pictures of pictures: give one (Source)")
			}
		default:
			all = append(all, g.sources...)
		}
	}
	if all == nil {
		return nil
	}
	width := in.at.Latents[len(in.at.Latents)-1]
	in.sources, in.grids = tp.Upload("pictures", all, len(rows), len(all)/(len(rows)*width), width), rows[0].Given.grids
	return nil
}

// Reads are the network's inputs at a point: numbers [Times, Rows, Cols, channels], those of latents
// first, and its times, one, or one a frame of latents.
func (d *denoiser) Reads(q Point, at Shape) (numbers, times []float32) {
	latents := narrowed(q.Given.Finish(q.Latents))
	if q.Given == nil || q.Given.channels == nil {
		return latents, d.timesOf(q, at)
	}
	c, pixels := d.channels, at.Times*at.Rows*at.Cols
	wide := len(q.Given.channels) / pixels
	for i := range pixels {
		numbers = append(append(numbers, latents[i*c:(i+1)*c]...), q.Given.channels[i*wide:(i+1)*wide]...)
	}
	return numbers, d.timesOf(q, at)
}

// uploaded is the last batch of texts on the device. Every step of a
// trajectory has the same texts, which are far larger than its latents: SD3's are 4 MB a prompt.
type uploaded struct {
	texts  []*Text
	dtype  kernels.DType
	states *tensor.Tensor
	pooled *tensor.Tensor // nil where the network reads none
}

// on puts a batch of texts on a tape: the one before, if it was the same.
func (u *uploaded) on(tp *autograd.Tape, texts []*Text) (states, pooled *autograd.Value) {
	if !slices.Equal(u.texts, texts) || u.dtype != tp.DType {
		u.free()
		var s, p []float32
		longest := 0
		for _, t := range texts {
			longest = max(longest, t.Tokens)
		}
		for _, t := range texts {
			s, p = append(s, t.States...), append(p, t.Pooled...)
			s = append(s, make([]float32, (longest-t.Tokens)*t.Width)...) // shorter ones are filled up
		}
		u.texts, u.dtype = slices.Clone(texts), tp.DType
		u.states = tp.Pool().FromF32(tp.DType, s, len(texts), longest, texts[0].Width).Named("text")
		if len(p) > 0 {
			u.pooled = tp.Pool().FromF32(tp.DType, p, len(texts), len(texts[0].Pooled)).Named("pooled text")
		}
	}
	if u.pooled != nil {
		pooled = tp.Input(u.pooled)
	}
	return tp.Input(u.states), pooled
}

// free gives the memory back.
func (u *uploaded) free() {
	for _, t := range []*tensor.Tensor{u.states, u.pooled} {
		if t != nil {
			t.Free()
		}
	}
	*u = uploaded{}
}

// Back takes gradients at the outputs to those of trained parameters. The tape must have
// recorded, and is used up.
func (a *Forward) Back(grads [][]float64) error {
	if len(grads) != len(a.Outputs) {
		return fmt.Errorf("%d gradients for %d answers", len(grads), len(a.Outputs))
	}
	grads = slices.Clone(grads)
	for i, g := range a.given {
		grads[i] = g.Still(grads[i])
	}
	var seed []float32
	if a.guidance.Combines() {
		both := make([][]float64, 0, 2*len(grads))
		for i, g := range grads {
			du, dc := a.guidance.slopes(a.uncond[i], a.cond[i], a.width, g)
			both = append(both, du, dc)
		}
		grads = both
	}
	for i, g := range grads {
		if want := len(a.Outputs[0]); len(g) != want {
			return fmt.Errorf("gradient %d has %d numbers for an output of %d", i, len(g), want)
		}
		for _, v := range g {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return kernels.NotFiniteError("gradient %d holds a number that is infinite or none", i)
			}
		}
		seed = append(seed, narrowed(g)...)
	}
	if a.negated {
		negate(seed)
	}
	a.tape.Backward(autograd.Seed{Of: a.value, Grad: seed})
	return nil
}

func negate[T float32 | float64](x []T) {
	for i, v := range x {
		x[i] = -v
	}
}

// given puts a network's input on a tape.
type given = func(tp *autograd.Tape, name string, x []float32, shape ...int) *autograd.Value

// variable puts an input on the tape whose gradient backward computes.
func variable(tp *autograd.Tape, name string, x []float32, shape ...int) *autograd.Value {
	t := tp.Pool().FromF32(tp.DType, x, shape...).Named(name)
	defer t.Free() // the tape has it now
	return tp.Variable(t)
}

// gradient is a variable's, zeros where nothing reached it.
func gradient(v *autograd.Value) []float64 {
	var g *tensor.Tensor
	if g = v.Grad(); g == nil {
		return make([]float64, v.Tensor().Len())
	}
	return widened(g.F32())
}

// Pull runs the network as Forward does, on a tape that records, and takes gradients at the outputs back: to
// trained parameters, to whose gradient it adds, and to the points' latents.
func (d *denoiser) Pull(tp *autograd.Tape, at Shape, g Guidance, points []Point, grads [][]float64) ([][]float64, error) {
	a, err := d.forward(tp, at, g, points, variable)
	if err != nil {
		return nil, err
	}
	if err := a.Back(grads); err != nil {
		return nil, err
	}
	all, n := gradient(a.latents), at.Len()
	out := make([][]float64, len(points))
	for i, q := range points {
		if !a.guidance.Combines() {
			out[i] = all[i*n : (i+1)*n : (i+1)*n]
		} else {
			out[i] = make([]float64, n)
			for e := range out[i] {
				out[i][e] = all[2*i*n+e] + all[(2*i+1)*n+e]
			}
		}
		if q.Given != nil { // these latents were not read
			clear(out[i][:len(q.Given.first)])
		}
	}
	return out, nil
}
