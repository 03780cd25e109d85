package conversations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/sampling"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Question is what an episode is about.
type Question struct {
	Messages []vlm.Message // with as many pictures
	Pictures []*vision.Image
	Clips    []*video.Clip // with as many marks in the messages
	Tools    []any         // that the template writes, as pytext.OrderedJSON reads them
	Meta     prompts.Meta  // what its list says beside it

	text string // what the user said, before the model was told of tools
	// By says how its tools are called; nil: as the policy does.
	By *experiment.Episode
}

// Asked is a question with pictures before it.
func Asked(text string, pictures ...*vision.Image) Question { return about(text, nil, pictures) }

// place stands in a question's text for its next picture, where a row has one for each.
const place = "<image>"

// about is a question with clips before it, and pictures behind them, or where its text has their places.
func about(text string, clips []*video.Clip, pictures []*vision.Image) Question {
	var content []vlm.Part
	for range clips {
		content = append(content, vlm.Part{Kind: vlm.ClipPart})
	}
	if n := strings.Count(text, place); n > 0 && n == len(pictures) {
		for i, said := range strings.Split(text, place) {
			if i > 0 {
				content = append(content, vlm.Part{Kind: vlm.PicturePart})
			}
			content = append(content, vlm.Text(said)...)
		}
		return Question{Messages: []vlm.Message{{Role: "user", Content: content}}, Pictures: pictures, Clips: clips}
	}
	for range pictures {
		content = append(content, vlm.Part{Kind: vlm.PicturePart})
	}
	return Question{Messages: []vlm.Message{{Role: "user", Content: append(content, vlm.Text(text)...)}}, Pictures: pictures, Clips: clips}
}

// Policy is a policy that plays episodes.
//
// Invariants (tests): what Eval answers about an episode has the bits that Roll had, in any
// batch; gradients have the same bytes however many points there are in a pass; an episode is a
// function of its key, whatever is played beside it.
type Policy struct {
	Speaker       *Speaker
	Ask           func(prompt int) (Question, error)
	Protocol      *tools.Protocol
	Limits        tools.Limits
	Turn          int // most tokens of a turn; 0: 512
	Sampling      sampling.Options
	Silence       bool             // episodes that a limit ended are not trained on (Mini-o3)
	Exec          *program.Options // what runs the code that the model writes; nil: nothing
	Served        outside          // tools behind servers
	Films         experiment.Clips // how clips are read
	Far           *Engine          // draws the tokens of current weights in the decoder's place; nil: nothing does
	Draws         trainer.Draws
	Share         int  // pixels of tools' pictures that an episode holds at full size; 0: mostOfEpisode
	Parallel      int  // episodes under way at once; 0: 8, or 32 on a graphics card
	PrefillTokens int  // tokens of their observations that are read together; 0: 8192
	Supervised    bool // what episodes say was not drawn: it is judged at temperature 1
	ValueHeadOnly bool // the head of values learns alone (critic.go)
	Keep          int  // tokens of episodes whose values are kept for Back; of others it computes them again; below 0: of none

	// Noise is the step of the noise that a key's pictures are shown with; below 0, or where it is
	// nil: none. What was drawn is judged on clean pictures, by Eval, and, with Clean, in the
	// decisions of a roll, too (noisy.go).
	Noise func(k trainer.Key) int
	Clean bool

	// Control says which keys see their clips with shuffled frames (control.go); nil: none do.
	Control func(k trainer.Key) bool

	// Given says how many tokens of its prompt's solution a key's answer begins with, and Guided where that stands
	// (guided.go); nil: none does.
	Given  func(k trainer.Key) int
	Guided *prompts.Guided

	// Tree says how episodes of a group grow on trees (stems.go); nil: each begins by itself.
	Tree  *experiment.Stems
	stems map[trainer.Key][][]int32 // turns that a key's episode begins with

	Context  context.Context     // stops a roll
	Progress func(done, all int) // of a roll
	learner  *model.Learner
	played   *atomic.Int64    // episodes, by which environments tell them apart
	tutor    *Speaker         // what the weights Teacher are; nil: there is none
	critic   *critic          // nil: no head of values
	pending  []*autograd.Tape // of the last answers
}

// Learn says what is trained: an adapter, or, without one, the parameters that the folder was
// opened to train. needs are the further sets of weights.
func (p *Policy) Learn(a *nn.Adapters, o optim.Options, needs ...trainer.Weights) (err error) {
	p.learner, err = model.NewLearner(o, needs, model.Part{Params: p.Speaker.Params.Trained(), Adapter: a})
	return err
}

// Params are the trained weights, with those of a head of values. Learn comes first.
func (p *Policy) Params() trainer.Params {
	if p.critic != nil {
		return both{p.learner, p}
	}
	return p.learner
}

// Forget drops other weights (model.Learner).
func (p *Policy) Forget(w trainer.Weights) error { return p.learner.Forget(w) }

// Free gives back what Learn and the last Eval took.
func (p *Policy) Free() {
	p.forget()
	p.learner.Free()
	p.critic.free()
	p.learner, p.critic = nil, nil
}

// Roll plays one episode a key (batching.go).
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	return p.RollEach(w, keys, nil)
}

// RollEach is model.Telling's. An engine's episodes, and those that grow on trees, are told of together.
func (p *Policy) RollEach(w trainer.Weights, keys []trainer.Key, each func(first int, samples []trainer.Sample) error) (samples []trainer.Sample, err error) {
	far := p.Far != nil && w == trainer.Current
	if far {
		samples, err = p.rollFar(keys)
	} else {
		err = p.learner.With(w, func() error {
			if p.Tree != nil {
				samples, err = p.rollTrees(keys)
			} else {
				samples, err = p.rollAll(keys, each)
			}
			return err
		})
	}
	if err == nil && each != nil && (far || p.Tree != nil) {
		err = each(0, samples)
	}
	return samples, err
}

// asked is the state in which every episode of a prompt begins: row 0 holds all of the prompt
// but its last token, so that each episode reads that for itself and has what follows.
func (p *Policy) asked(d *vlm.Decoder, k trainer.Key) (*episodeSampler, error) {
	v, err := p.question(k)
	if err != nil {
		return nil, err
	}
	last := len(v.unread.IDs) - 1
	head := v.unread
	head.IDs = head.IDs[:last]
	d.Clear(0)
	if _, err := d.Extend(0, head); err != nil {
		return nil, err
	}
	v.unread = vlm.Stretch{IDs: v.unread.IDs[last:]}
	return v, nil
}

// question is a voice that has read a prompt's tokens and pictures, and has no row in a decoder.
func (p *Policy) question(k trainer.Key) (*episodeSampler, error) {
	q, err := p.Ask(k.Prompt)
	if err != nil {
		return nil, err
	}
	text, err := p.Speaker.Template.Render(q.Messages, vlm.Rendering{Generate: true, Tools: q.Tools})
	if err != nil {
		return nil, err
	}
	v := &episodeSampler{p: p, noise: p.noise(k), clean: q.Pictures, text: cmp.Or(q.text, q.said()), meta: string(q.Meta), by: q.By}
	v.album = tools.NewAlbum(p.shown(k, v.noise, q.Pictures)...)
	if v.films, err = p.Speaker.shot(q.Clips, p.Films, p.frames(k)); err != nil {
		return nil, err
	}
	v.album.Clip = v.films.chosen()
	if v.solution, err = p.solution(q); err != nil {
		return nil, err
	}
	if v.prompt, err = v.Code(text, v.album.Pictures); err == nil && p.Limits.Tokens > 0 && v.said >= p.Limits.Tokens {
		v.lost = fmt.Errorf("its prompt has %d tokens, and episode.tokens = %d leaves none for an answer\nhint: raise episode.tokens", v.said, p.Limits.Tokens)
	}
	return v, err
}

// play is one episode.
func (p *Policy) play(ctx context.Context, k trainer.Key, v *episodeSampler) (trainer.Sample, error) {
	s := trainer.Sample{Key: k, Control: v.films != nil && p.control(k)}
	state := &tools.State{Album: v.album, Figures: len(v.album.Pictures), Special: v.p.Speaker.Tokens.SpecialTokens()}
	code := p.program(ctx, k, v)
	if code != nil {
		defer code.Close()
		state.Program = code
	}
	of, err := p.occasion(k, v)
	if err != nil {
		return s, err
	}
	asks := p.Served.begin(ctx, of, p.fits, v.shelf)
	if asks != nil {
		state.Outside = asks
	}
	protocol, limits := p.Protocol, p.Limits
	if v.by != nil {
		if protocol, err = v.by.Play(); err != nil {
			return s, err
		}
		limits.ActFirst = v.by.Limits().ActFirst
	}
	t, err := tools.Episode{Protocol: protocol, State: state, Limits: limits, Sampler: v, Coder: v, Prompt: v.prompt}.Play(ctx)
	v.album.Keep = nil // no tool draws any more
	if err == nil && code != nil {
		err = code.Err() // nothing is learned from code that could not be run
	}
	if err != nil {
		return s, err
	}
	var places []int
	for _, g := range v.grids[:len(v.album.Pictures)] {
		places = append(places, g.Tokens(p.Speaker.Processor.Merge))
	}
	if err := t.Check(p.Speaker.Marks.Picture, places); err != nil {
		return s, err
	}
	said := ""
	if n := len(v.texts); n > 0 {
		said = v.texts[n-1]
	}
	worth := asks.end(said)
	e := &Episode{Transcript: t, Album: v.album, Texts: v.texts, Entropy: v.spread, Worth: worth, Lost: cmp.Or(v.lost, asks.lost()), films: v.films, Given: v.given}
	if e.Lost != nil && ctx.Err() != nil {
		return s, ctx.Err() // the run is interrupted
	}
	s.Item.Episode = e
	if v.noise >= 0 {
		if e.Album, err = cleaned(v.album, v.clean); err != nil {
			return s, err
		}
		e.Noise = &Noise{Step: v.noise}
	}
	d := &s.Decisions
	for at, on := range t.Sampled {
		if on {
			d.Step, d.LogProb = append(d.Step, at), append(d.LogProb, t.ModelLogProb[at])
			d.Trained = append(d.Trained, !(p.Silence && t.Over))
		}
	}
	return s, nil
}

// program is what runs an episode's code; nil where nothing does. It has the pictures at full size.
func (p *Policy) program(ctx context.Context, k trainer.Key, v *episodeSampler) *program.Session {
	if p.Exec == nil {
		return nil
	}
	e := program.Episode{Seed: p.Draws.Of("programs", k).Word(0), Fits: p.fits}
	for _, m := range v.album.Pictures {
		e.Pictures = append(e.Pictures, m.Image)
	}
	return program.Begin(ctx, p.Exec, e)
}

// share is how many pixels of tools' pictures an episode holds at full size.
func (p *Policy) share() int {
	if p.Share == 0 {
		return mostOfEpisode
	}
	return p.Share
}

// fits is whether the model can look at a picture of such a size.
func (p *Policy) fits(w, h int) error {
	_, err := p.Speaker.Processor.Grid(w, h)
	return err
}

// speech is an episode as the network reads it.
func (p *Policy) speech(e *Episode) (s vlm.Stretch, err error) {
	var pictures []*vision.Image
	for i, picture := range e.Album.Pictures {
		if picture.Image == nil {
			return s, fmt.Errorf("picture %d of an episode is not at hand", i+1)
		}
		pictures = append(pictures, picture.Image)
	}
	s.IDs = e.Tokens
	e.films.in(&s)
	s.Pictures, err = p.Speaker.Patches(pictures)
	return s, err
}

var errNotRolled = errors.New("a point of this policy is an episode: it has none")
