package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// A Question is a point at which the network is asked.
type Question struct {
	Latents []float64
	Time    float64 // the schedule's timestep
	Text    *Text
	// Negative is the text of guidance by two outputs: u + Scale·(c - u). It is not read
	// where Guidance does not combine.
	Negative *Text
	Given    *Given // what a clip is given of pictures; nil for nothing
}

// Guidance is how the prompt is followed.
type Guidance struct {
	Scale    float64 // of two outputs; 1 or less: one output alone
	Norm     bool    // the combined output keeps the length of the conditional one, token by token
	Most     float64 // the combined output is no longer than a multiple of the conditional one; 0: any length
	Embedded float64 // what the network is told, where it reads a scale
	// Until, where it is not 0, is the clean share behind which one output alone is asked for.
	Until float64
	// Second is the Scale of the second network, of pipelines that have two.
	Second float64
}

// Combines reports whether every question takes two runs of the network.
func (g Guidance) Combines() bool { return g.Scale > 1 }

// Answers are the network's outputs, one a question, after guidance. Where a clip's first latents are given, nothing is
// made of what the network says of them: these numbers are 0, and no gradient goes back from them.
type Answers struct {
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

// Ask runs the network at questions of one shape, in one batch: with guidance, each question
// without its prompt and then with it, so that gradients, which are added in the batch's order,
// have the same bytes in batches of any size. The tape may record (Tape); a question's
// answer has the same bits in any batch, recorded or not. The tape is the caller's to Reset.
func (p *Pipeline) Ask(tp *autograd.Tape, at Shape, g Guidance, questions []Question) (*Answers, error) {
	return p.ask(tp, at, g, questions, (*autograd.Tape).Upload)
}

// ask is Ask with latents that given puts on the tape.
func (p *Pipeline) ask(tp *autograd.Tape, at Shape, g Guidance, questions []Question, given given) (*Answers, error) {
	if len(questions) == 0 {
		return nil, errors.New("no question was asked")
	}
	if err := p.CheckGuidance(g); err != nil {
		return nil, err
	}
	i, err := p.expertOf(questions)
	if err != nil {
		return nil, err
	}
	network, err := p.loaded(i)
	if err != nil {
		return nil, err
	}
	g = p.guidanceOf(i, g)
	if g, err = g.at(questions); err != nil {
		return nil, err
	}
	in, err := p.inputs(tp, at, g, questions, given)
	if err != nil {
		return nil, err
	}
	a := &Answers{guidance: g, width: at.Latents[len(at.Latents)-1], tape: tp, latents: in.latents, value: network.forward(tp, in)}
	all := widened(a.value.F32())
	if a.negated = p.family.network.negated; a.negated {
		negate(all)
	}
	n := at.Len()
	row := func(i int) []float64 { return all[i*n : (i+1)*n : (i+1)*n] }
	for i, q := range questions {
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

// at is the guidance of questions, all of which stand on one side of its end.
func (g Guidance) at(questions []Question) (Guidance, error) {
	if g.Until == 0 {
		return g, nil
	}
	past := func(q Question) bool { return (1000-q.Time)/1000 > g.Until }
	for _, q := range questions {
		if past(q) != past(questions[0]) {
			return g, errors.New("questions before and behind the end of guidance in one batch: ask them apart")
		}
	}
	if past(questions[0]) {
		g.Scale = 1
	}
	return g, nil
}

// inputs uploads a batch.
func (p *Pipeline) inputs(tp *autograd.Tape, at Shape, g Guidance, questions []Question, given given) (inputs, error) {
	texts, each := make([]*Text, 0, 2*len(questions)), 1
	for _, q := range questions {
		if g.Combines() {
			texts, each = append(texts, q.Negative), 2
		}
		texts = append(texts, q.Text)
	}
	var latents []float32
	in := inputs{at: at}
	asked := make([]Question, len(texts)) // a row each
	for i, t := range texts {
		q := questions[i/each]
		switch {
		case t == nil:
			return in, errors.New("a question has no text: encode the prompt, and the negative one where guidance combines two outputs")
		case t.Tokens != texts[0].Tokens && !p.family.text.ragged || t.Width != texts[0].Width || len(t.Pooled) != len(texts[0].Pooled):
			return in, fmt.Errorf("texts of %d x %d and %d x %d in one batch", texts[0].Tokens, texts[0].Width, t.Tokens, t.Width)
		case len(q.Latents) != at.Len():
			return in, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(q.Latents), at.Width, at.Height, at.Len())
		}
		asked[i] = q
		if p.family.text.ragged {
			in.words = append(in.words, int32(t.Tokens))
		}
		latents = append(latents, narrowed(q.Given.Finish(q.Latents))...)
		in.times = append(in.times, p.timesOf(q, at)...)
		if p.family.network.embedded {
			in.guidance = append(in.guidance, float32(g.Embedded))
		}
	}
	in.latents = given(tp, "latents", latents, append([]int{len(texts)}, at.Latents...)...)
	in.text, in.pooled = p.uploaded.on(tp, texts)
	return in, p.putGiven(tp, &in, asked)
}

// Back takes gradients at the outputs to those of trained parameters. The tape must have
// recorded, and is used up.
func (a *Answers) Back(grads [][]float64) error {
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
