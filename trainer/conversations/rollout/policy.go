package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/toolserver"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Policy is a policy that plays episodes.
//
// Invariants (tests): Eval's log-probabilities of an episode have the bits of Roll, in any batch; gradients have the
// same bytes however many points there are in a pass; an episode is a function of its key, whatever is played beside
// it.
type Policy struct {
	VLM           *chat.VLM
	Prompts       func(prompt int) (chat.Prompt, error)
	Protocol      *tools.Protocol
	Limits        tools.Limits
	TurnTokens    int // most tokens of a turn; 0: 512
	Sampling      sampling.Options
	Silence       bool             // episodes that a limit ended are not trained on (Mini-o3)
	Exec          *program.Options // runs the code that the model writes; nil: nothing
	Tools         toolserver.Tools // tools behind servers
	VideoOptions  experiment.Clips // how clips are read
	Engine        *Engine          // draws the tokens of current weights in the decoder's place; nil: nothing does
	Draws         trainer.Draws
	Pixels        int  // pixels of tools' pictures that an episode holds at full size; 0: MaxEpisodePixels
	Parallel      int  // episodes under way at once; 0: 8, or 32 on a graphics card
	Spare         int  // rows for further episodes while others wait for their tools
	PrefillTokens int  // tokens of their observations that are read together; 0: 8192
	Supervised    bool // tokens of episodes were not drawn: they are judged at temperature 1
	ValueHeadOnly bool // the head of values learns alone (valuehead.go)
	Keep          int  // tokens of episodes whose values are kept for Back; of others it computes them again; below 0: of none

	// Noise is the step of the noise that a key's pictures are shown with; below 0, or where it is nil: none. Tokens
	// are judged on clean pictures, by Eval, and, with Clean, in the decisions of a roll, too (views.go).
	Noise func(k trainer.Key) int
	Clean bool

	// Control says which keys see their clips with shuffled frames (views.go); nil: none do.
	Control func(k trainer.Key) bool

	// Given is the number of tokens of its prompt's solution that a key's answer begins with, and Guided their place
	// (guided.go); nil: none does.
	Given  func(k trainer.Key) int
	Guided *prompts.Guided

	// Tree says how episodes of a group grow on trees (trees.go); nil: each begins by itself.
	Tree     *experiment.Stems
	Prefixes map[trainer.Key][][]int32 // turns that a key's episode begins with

	Context   context.Context     // stops a roll
	Progress  func(done, all int) // of a roll
	Place     model.Place         // where Learn puts states
	Logf      func(format string, args ...any)
	Learner   *model.Learner
	Played    *atomic.Int64    // episodes, by which environments tell them apart
	Teacher   *chat.VLM        // the model of the weights Teacher; nil without one
	valueHead *valueHead       // nil: no head of values
	pending   []*autograd.Tape // of the last answers
	kept      int              // tokens of the last answers whose values are kept
}

// Learn sets the trained parameters: an adapter, or, without one, the parameters that the folder was opened to train.
// needs are the further sets of weights.
func (p *Policy) Learn(a *nn.Adapters, o optim.Options, needs ...trainer.Weights) (err error) {
	p.Learner, err = model.NewLearner(o, needs, p.Place, model.Part{Params: p.VLM.Params.Trained(), Adapter: a})
	return err
}

// Params are the trained weights, with those of a head of values. Learn comes first.
func (p *Policy) Params() trainer.Params {
	if p.valueHead != nil {
		return jointParams{p.Learner, p}
	}
	return p.Learner
}

// Forget drops other weights (model.Learner).
func (p *Policy) Forget(w trainer.Weights) error { return p.Learner.Forget(w) }

// Free gives back the memory of Learn and of the last Eval.
func (p *Policy) Free() {
	p.forget()
	p.Learner.Free()
	p.valueHead.free()
	p.Learner, p.valueHead = nil, nil
}

// Roll plays one episode a key (batching.go).
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	return p.RollEach(w, keys, nil)
}

// RollEach implements model.Streamer. Episodes of an engine, and those on trees, are reported together.
func (p *Policy) RollEach(w trainer.Weights, keys []trainer.Key, each func(first int, samples []trainer.Sample) error) (samples []trainer.Sample, err error) {
	far := p.Engine != nil && w == trainer.Current
	if far {
		samples, err = p.rollEngine(keys)
	} else {
		err = p.Learner.With(w, func() error {
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

// prefill is the state in which every episode of a prompt begins: row 0 holds all of the prompt but its last token,
// so that each episode reads that for itself and has the logits of the next.
func (p *Policy) prefill(d *vlm.Decoder, k trainer.Key) (*EpisodeSampler, error) {
	v, err := p.Start(k)
	if err != nil {
		return nil, err
	}
	last := len(v.Unread.IDs) - 1
	head := v.Unread
	head.IDs = head.IDs[:last]
	d.Clear(0)
	if _, err := d.Extend(0, head); err != nil {
		return nil, err
	}
	v.Unread = vlm.Stretch{IDs: v.Unread.IDs[last:]}
	return v, nil
}

// Start is the sampler of a prompt: it has the tokens and pictures, and no row in a decoder.
func (p *Policy) Start(k trainer.Key) (*EpisodeSampler, error) {
	q, err := p.Prompts(k.Prompt)
	if err != nil {
		return nil, err
	}
	text, err := p.VLM.Template.Render(q.Messages, vlm.Rendering{Generate: true, Tools: q.Tools})
	if err != nil {
		return nil, err
	}
	v := &EpisodeSampler{Policy: p, noise: p.noise(k), clean: q.Pictures, asked: cmp.Or(q.Question, q.UserText()), meta: string(q.Meta), episode: q.Episode}
	v.Album = tools.NewAlbum(p.shown(k, v.noise, q.Pictures)...)
	if v.Videos, err = p.VLM.LoadVideos(q.Clips, p.VideoOptions, p.FrameOrder(k)); err != nil {
		return nil, err
	}
	v.Album.Clip = v.Videos.ToolFrames()
	if v.solution, err = p.solution(q); err != nil {
		return nil, err
	}
	if v.Prompt, err = v.Code(text, v.Album.Pictures); err == nil && p.Limits.Tokens > 0 && v.Length >= p.Limits.Tokens {
		v.Lost = fmt.Errorf("its prompt has %d tokens, and episode.tokens = %d leaves none for an answer\nhint: raise episode.tokens", v.Length, p.Limits.Tokens)
	}
	return v, err
}

// play is one episode.
func (p *Policy) play(ctx context.Context, k trainer.Key, v *EpisodeSampler) (trainer.Sample, error) {
	s := trainer.Sample{Key: k, Control: v.Videos != nil && p.IsControl(k)}
	state := &tools.State{Album: v.Album, Figures: len(v.Album.Pictures), Special: v.Policy.VLM.Tokens.SpecialTokens()}
	code := p.interpreter(ctx, k, v)
	if code != nil {
		defer code.Close()
		state.Program = code
	}
	of, err := p.environment(k, v)
	if err != nil {
		return s, err
	}
	asks := p.Tools.Begin(ctx, of, p.fits, v.budget)
	if asks != nil {
		state.Outside = asks
	}
	protocol, limits := p.Protocol, p.Limits
	if v.episode != nil {
		if protocol, err = v.episode.Play(); err != nil {
			return s, err
		}
		limits.ActFirst = v.episode.Limits().ActFirst
	}
	t, err := tools.Episode{Protocol: protocol, State: state, Limits: limits, Sampler: v, Coder: v, Prompt: v.Prompt}.Play(ctx)
	v.Album.Keep = nil // no tool draws any more
	if err == nil && code != nil {
		err = code.Err() // nothing is learned from code that could not be run
	}
	if err != nil {
		return s, err
	}
	var places []int
	for _, g := range v.grids[:len(v.Album.Pictures)] {
		places = append(places, g.Tokens(p.VLM.Processor.Merge))
	}
	if err := t.Check(p.VLM.Marks.Picture, places); err != nil {
		return s, err
	}
	said := ""
	if n := len(v.texts); n > 0 {
		said = v.texts[n-1]
	}
	worth := asks.End(said)
	e := &Episode{Transcript: t, Album: v.Album, Texts: v.texts, Entropy: v.entropy, Worth: worth, Lost: cmp.Or(v.Lost, asks.Lost()), Videos: v.Videos, Given: v.given}
	if e.Lost != nil && ctx.Err() != nil {
		return s, ctx.Err() // the run is interrupted
	}
	s.Item.Episode = e
	if v.noise >= 0 {
		if e.Album, err = cleaned(v.Album, v.clean); err != nil {
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

// interpreter runs an episode's code; nil where nothing does. It has the pictures at full size.
func (p *Policy) interpreter(ctx context.Context, k trainer.Key, v *EpisodeSampler) *program.Session {
	if p.Exec == nil {
		return nil
	}
	e := program.Episode{Seed: p.Draws.Of("programs", k).Word(0), Fits: p.fits}
	for _, m := range v.Album.Pictures {
		e.Pictures = append(e.Pictures, m.Image)
	}
	return program.Begin(ctx, p.Exec, e)
}

// pixels is how many pixels of tools' pictures an episode holds at full size.
func (p *Policy) pixels() int {
	if p.Pixels == 0 {
		return toolserver.MaxEpisodePixels
	}
	return p.Pixels
}

// fits is whether the model can look at a picture of such a size.
func (p *Policy) fits(w, h int) error {
	_, err := p.VLM.Processor.Grid(w, h)
	return err
}

// input is an episode as the network reads it.
func (p *Policy) input(e *Episode) (s vlm.Stretch, err error) {
	var pictures []*vision.Image
	for i, picture := range e.Album.Pictures {
		if picture.Image == nil {
			return s, fmt.Errorf("picture %d of an episode is not at hand", i+1)
		}
		pictures = append(pictures, picture.Image)
	}
	s.IDs = e.Tokens
	e.Videos.AddTo(&s)
	s.Pictures, err = p.VLM.Patches(pictures)
	return s, err
}

var errNotRolled = errors.New("a point of this policy is an episode: it has none")

// Serve opens the tools outside that an experiment names, and has the policy's episodes call them; none of their
// answers is kept. The returned function closes them.
func (p *Policy) Serve(e *experiment.Episode) (close func() error, err error) {
	if p.Tools, err = toolserver.Open(e, ""); err != nil {
		return nil, err
	}
	p.Played = new(atomic.Int64)
	return p.Tools.Close, nil
}

// environment names an episode. Its number is of this process: evaluations play the same keys again.
func (p *Policy) environment(k trainer.Key, v *EpisodeSampler) (toolserver.Episode, error) {
	if len(p.Tools) == 0 {
		return toolserver.Episode{}, nil
	}
	var meta any
	if v.meta != "" {
		var err error
		if meta, err = pytext.OrderedJSON(v.meta); err != nil {
			return toolserver.Episode{}, fmt.Errorf("meta of prompt %d: %w", k.Prompt, err)
		}
	}
	seed := int(p.Draws.Of("environment", k).Draw().Uint32() >> 1)
	number := int64(0)
	if p.Played != nil {
		number = p.Played.Add(1)
	}
	return toolserver.Episode{Name: fmt.Sprintf("%d.%d.%d-%d", k.Iteration, k.Prompt, k.Sample, number), Prompt: v.asked, Seed: seed, Meta: meta}, nil
}
