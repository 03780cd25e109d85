package pictures

import (
	"iter"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Pictures of one iteration may have several sizes, and clips several numbers of frames. A group shares a prompt and so
// a size, batches hold one size, and a size is a function of its prompt's coordinates:
//
//	the prompt's own, or the iteration's one, or one of the iteration's sizes, drawn by iteration and prompt;
//	where the iteration has none, the size of the pictures that it is made of
//
// Frames are the prompt's own, or the iteration's.
//
// Invariants (tests): a picture of one size has the same bits whatever sizes are made beside it; so have
// gradients, which are added in the order of points.

// An extent is how large a sample is: a picture's pixels, and how many of them a clip has.
type extent struct {
	experiment.Size
	frames int
}

// A Form is how pictures of one size are sampled. Rows and times depend on the size where the schedule's shift
// does.
type Form struct {
	At     pipeline.Shape
	Rows   []sde.Row
	Times  []float64
	Forest *Forest // of trees, whose leaves samples are; nil: they are rolled one by one
	One    *One    // step that a prompt's samples draw at; nil: all of the window

	settings experiment.Settings // with the schedule of this size
	judged   []sde.Row           // rows of decisions
}

// form is how a key's picture is sampled.
func (p *Policy) form(k trainer.Key) *Form {
	if p.Forms == nil {
		return &p.Form
	}
	return p.Forms(k)
}

// alike are the places of keys by form, in the order of their first ones.
func (p *Policy) alike(keys []trainer.Key) (forms []*Form, places map[*Form][]int) {
	places = map[*Form][]int{}
	for i, k := range keys {
		f := p.form(k)
		if places[f] == nil {
			forms = append(forms, f)
		}
		places[f] = append(places[f], i)
	}
	return forms, places
}

// A stretch is some of a list's keys, which follow each other and have one form.
type stretch struct {
	*Form
	from, to int
}

// stretches splits keys into consecutive runs of one form, each at most most(first) long, whose members joins allows.
func (p *Policy) stretches(keys []trainer.Key, most func(first int) int, joins func(first, i int) bool) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		for from := 0; from < len(keys); {
			s := stretch{p.form(keys[from]), from, from + 1}
			for end := from + most(from); s.to < len(keys) && s.to < end && p.form(keys[s.to]) == s.Form && joins(from, s.to); {
				s.to++
			}
			if !yield(s) {
				return
			}
			from = s.to
		}
	}
}

// follow makes p sample by an iteration's settings. Sizes that are drawn are by a key, and by the iteration unless they
// are fixed.
func (m *Model) follow(p *Policy, settings experiment.Settings, key rng.Key, fixed bool) error {
	asked := m.sizes(settings)
	forms := map[extent]*Form{}
	for _, one := range m.extents(settings) {
		f, err := m.formOf(settings, one)
		if err != nil {
			return err
		}
		forms[one] = f
	}
	p.Form, p.Guidance = *forms[extent{asked[0], settings.Frames()}], GuidanceOf(settings.Sampler)
	p.Led = led(settings)
	if p.TextNoise = 0; !fixed {
		p.TextNoise = settings.Rollout.TextNoise.At(settings.Iteration, settings.Run.Iterations)
	}
	p.Texts, p.Ready, p.Sources = m.texts(p, settings.Sampler.Negative), m.ready(p, settings.Sampler.Negative), m.sourcesFor(p)
	p.Forms = nil
	followed := m.follows(settings)
	if len(forms) == 1 && !followed {
		return nil
	}
	draws := trainer.Draws{Root: key, Fixed: fixed}
	p.Forms = func(k trainer.Key) *Form {
		own := m.asked.Prompt(k.Prompt)
		of := func(size experiment.Size) extent { return extent{size, framesOf(own.Frames, settings)} }
		switch {
		case own.Sized():
			return forms[of(experiment.Size{own.Width, own.Height})]
		case followed:
			return m.formLike(settings, forms, of(m.sources.sizeOf(k.Prompt, asked[0])), of(asked[0]))
		case len(asked) == 1:
			return forms[of(asked[0])]
		}
		k.Sample = 0
		return forms[of(asked[draws.Of("size", k).Draw().Intn(len(asked))])]
	}
	return nil
}

// framesOf are a prompt's own, or the iteration's.
func framesOf(own int, settings experiment.Settings) int {
	if own > 0 {
		return own
	}
	return settings.Frames()
}

// extents are all that an iteration's samples may have, its own first.
func (m *Model) extents(settings experiment.Settings) (all []extent) {
	sizes := m.sizes(settings)
	for _, size := range sizes {
		all = append(all, extent{size, settings.Frames()})
	}
	for _, own := range m.own {
		of := sizes
		if own.Size != (experiment.Size{}) {
			of = []experiment.Size{own.Size}
		}
		for _, size := range of {
			if one := (extent{size, framesOf(own.frames, settings)}); !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// sizes are an iteration's: the model's where it names none.
func (m *Model) sizes(settings experiment.Settings) []experiment.Size {
	if asked := settings.PictureSizes(); len(asked) > 0 {
		return asked
	}
	d := m.Pipeline.Defaults()
	return []experiment.Size{{d.Width, d.Height}}
}

// formOf is the form of an iteration's pictures of a size.
func (m *Model) formOf(settings experiment.Settings, one extent) (f *Form, err error) {
	f = &Form{}
	if f.At, err = shape(m.Pipeline, one.Size, one.frames); err != nil {
		return nil, err
	}
	if f.settings, err = settings.Of(f.At.Tokens); err != nil {
		return nil, err
	}
	f.Rows, f.Times = f.settings.Rows, f.settings.Schedule.Timesteps
	f.judged = f.Rows
	if settings.Rollout.Buffer != nil { // samples of any iteration, whose window stood elsewhere
		if f.judged, err = f.settings.Anywhere(); err != nil {
			return nil, err
		}
	}
	if !settings.Evaluates {
		if f.Forest, err = forest(f.settings); err != nil {
			return nil, err
		}
	}
	f.One, err = oneOf(f.settings)
	return f, err
}

// ownExtents are those that prompts name, each once; a size of zeros, or no frames: the prompt names none.
func ownExtents(n int, prompt func(n int) prompts.Prompt) (all []extent) {
	seen := map[extent]bool{{}: true}
	for i := range n {
		if one := ownExtent(prompt(i)); !seen[one] {
			seen[one], all = true, append(all, one)
		}
	}
	return all
}

func ownExtent(p prompts.Prompt) extent {
	return extent{experiment.Size{p.Width, p.Height}, p.Frames}
}

// judgedBy are the rows of decisions: of all, and, where sizes have rows of their own, of a sample's.
func (m *Model) judgedBy(settings experiment.Settings) (rows []sde.Row, of func(k trainer.Key) []sde.Row, err error) {
	if m.Policy == nil { // an experiment is checked, and nothing is open
		return settings.Rows, nil, nil
	}
	if m.Forms != nil {
		of = func(k trainer.Key) []sde.Row { return m.form(k).judged }
	}
	return m.Form.judged, of, nil
}

// A pass is questions about pictures of one size, made of pictures of the same sizes, that go through the network at
// once.
type pass struct {
	*Form
	points []pipeline.Point
	known  [][]float64 // outputs during the roll; nil: they are computed
}

// passes are points with their texts and sources, in their order.
func (p *Policy) passes(at []trainer.Point) (all []pass, err error) {
	keys := make([]trainer.Key, len(at))
	for i, point := range at {
		keys[i] = point.Key
	}
	sources, err := p.sources(keys)
	if err != nil {
		return nil, err
	}
	texts, negatives, err := p.Texts(promptsOf(keys))
	if err != nil {
		return nil, err
	}
	most := func(i int) int { return p.perPassOf(p.form(keys[i]), sources[i]) }
	alike := func(a, b int) bool {
		return pipeline.SameSizes(sources[a], sources[b]) && p.Pipeline.Expert(at[a].Time) == p.Pipeline.Expert(at[b].Time)
	}
	for s := range p.stretches(keys, most, alike) {
		one := pass{Form: s.Form}
		for i := s.from; i < s.to; i++ {
			one.points = append(one.points, pipeline.Point{Latents: at[i].State, Time: at[i].Time, Text: texts[i], Negative: negatives[i], Given: sources[i]})
		}
		all = append(all, one)
	}
	return all, nil
}

// sources are the sources of the pictures of keys.
func (p *Policy) sources(keys []trainer.Key) ([]*pipeline.Given, error) {
	if p.Sources == nil {
		return make([]*pipeline.Given, len(keys)), nil
	}
	return p.Sources(keys)
}

// each is how many runs an output takes.
func (p *Policy) each() int { return runs(p.Guidance) }

// runs is how many an output takes under a guidance.
func runs(g pipeline.Guidance) int {
	if g.Combines() {
		return 2
	}
	return 1
}

// perPass is how many points a pass has.
func (p *Policy) perPass(f *Form) int { return p.perPassOf(f, nil) }

// perPassOf is how many it has of pictures that are made of others.
func (p *Policy) perPassOf(f *Form, of *pipeline.Given) int {
	n := p.Micro
	if n == 0 {
		n = 4096 / max(1, f.At.Tokens+of.Length())
	}
	if p.twin {
		n /= 2
	}
	return max(1, n)
}
