package pictures

import (
	"iter"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Pictures of one iteration may have several sizes. A group shares a prompt and so a size, batches hold one
// size, and a size is a function of its prompt's coordinates:
//
//	the prompt's own, or the turn's one, or one of the turn's sizes, drawn by iteration and prompt, or, where the turn has
//	none, what the pictures make that it is made of
//
// Invariants (tests): a picture of one size has the same bits whatever sizes are made beside it; so have
// gradients, which are added in the order of points.

// A Form is how pictures of one size are sampled. Rows and times depend on the size where the schedule's shift
// does.
type Form struct {
	At     pipeline.Shape
	Rows   []sde.Row
	Times  []float64
	Forest *Forest // of trees, whose leaves samples are; nil: they are rolled one by one
	One    *One    // step that a prompt's samples draw at; nil: all of the window

	turn   experiment.Turn // with the schedule of this size
	judged []sde.Row       // what decisions are judged by
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

// stretches are keys in their order, at most so many from the first of a stretch on, of which each two joins.
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

// follow makes p sample as a turn says. Sizes that are drawn are by a key, and by the iteration unless they
// are fixed.
func (m *Model) follow(p *Policy, turn experiment.Turn, key rng.Key, fixed bool) error {
	asked := m.sizes(turn)
	forms := map[experiment.Size]*Form{}
	for _, size := range slices.Concat(asked, m.own) {
		f, err := m.formOf(turn, size)
		if err != nil {
			return err
		}
		forms[size] = f
	}
	p.Form, p.Guidance = *forms[asked[0]], GuidanceOf(turn.Sampler)
	p.Texts, p.Sources = m.texts(p, turn.Sampler.Negative), m.sourcesFor(p)
	p.Forms = nil
	followed := m.follows(turn)
	if len(forms) == 1 && !followed {
		return nil
	}
	draws := trainer.Draws{Root: key, Fixed: fixed}
	p.Forms = func(k trainer.Key) *Form {
		if own := m.asked.Prompt(k.Prompt); own.Sized() {
			return forms[experiment.Size{own.Width, own.Height}]
		}
		if followed {
			return m.formLike(turn, forms, m.sources.sizeOf(k.Prompt, asked[0]), asked[0])
		}
		if len(asked) == 1 {
			return forms[asked[0]]
		}
		k.Sample = 0
		return forms[asked[draws.Of("size", k).Draw().Intn(len(asked))]]
	}
	return nil
}

// sizes are those that a turn asks for: the model's where it asks for none.
func (m *Model) sizes(turn experiment.Turn) []experiment.Size {
	if asked := turn.Asked(); len(asked) > 0 {
		return asked
	}
	d := m.Pipeline.Defaults()
	return []experiment.Size{{d.Width, d.Height}}
}

// formOf is the form of a turn's pictures of a size.
func (m *Model) formOf(turn experiment.Turn, size experiment.Size) (f *Form, err error) {
	f = &Form{}
	if f.At, err = shape(m.Pipeline, size, turn.Frames()); err != nil {
		return nil, err
	}
	if f.turn, err = turn.Of(f.At.Tokens); err != nil {
		return nil, err
	}
	f.Rows, f.Times = f.turn.Rows, f.turn.Schedule.Timesteps
	f.judged = f.Rows
	if turn.Rollout.Buffer != nil { // samples of any iteration, whose window stood elsewhere
		if f.judged, err = f.turn.Anywhere(); err != nil {
			return nil, err
		}
	}
	if !turn.Evaluates {
		if f.Forest, err = forest(f.turn); err != nil {
			return nil, err
		}
	}
	f.One, err = oneOf(f.turn)
	return f, err
}

// ownSizes are those that prompts name, each once.
func ownSizes(n int, prompt func(n int) (width, height int)) (all []experiment.Size) {
	seen := map[experiment.Size]bool{}
	for i := range n {
		w, h := prompt(i)
		if s := (experiment.Size{w, h}); w > 0 && !seen[s] {
			seen[s], all = true, append(all, s)
		}
	}
	return all
}

// judgedBy are the rows of decisions: of all, and, where sizes have rows of their own, of a sample's.
func (m *Model) judgedBy(turn experiment.Turn) (rows []sde.Row, of func(k trainer.Key) []sde.Row, err error) {
	if m.Policy == nil { // an experiment is checked, and nothing is open
		return turn.Rows, nil, nil
	}
	if m.Forms != nil {
		of = func(k trainer.Key) []sde.Row { return m.form(k).judged }
	}
	return m.Form.judged, of, nil
}
