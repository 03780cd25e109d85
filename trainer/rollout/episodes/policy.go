package episodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Question is what an episode is about.
type Question struct {
	Messages []vlm.Message // with as many pictures
	Pictures []*vision.Image
}

// Asked is a question with pictures before it.
func Asked(text string, pictures ...*vision.Image) Question {
	var content []vlm.Part
	for range pictures {
		content = append(content, vlm.Part{Kind: vlm.PicturePart})
	}
	return Question{[]vlm.Message{{Role: "user", Content: append(content, vlm.Text(text)...)}}, pictures}
}

// Policy is a policy that plays episodes.
//
// Invariants (tests): what Eval answers about an episode has the bits that Roll had, in any
// batch; gradients have the same bytes however many points there are in a pass; an episode is a
// function of its key.
type Policy struct {
	Speaker  *Speaker
	Ask      func(prompt int) (Question, error)
	Protocol *tools.Protocol
	Limits   tools.Limits
	Turn     int // most tokens of a turn; 0: 512
	Sampling rollout.Sampling
	Silence  bool // episodes that a limit ended are not trained on (Mini-o3)
	Draws    rollout.Draws
	Keep     int // tokens of episodes whose values are kept for Back; of others it computes them again

	Context  context.Context     // stops a roll
	Progress func(done, all int) // of a roll
	learner  *rollout.Learner
	seen     map[*trainer.Episode][]float32 // a tower that is not trained sees a picture once
	pending  []*autograd.Tape               // of the last answers
}

// Learn says what is trained: an adapter, or, without one, the parameters that the folder was
// opened to train. needs are the further sets of weights.
func (p *Policy) Learn(a *nn.Adapters, o optim.Options, needs ...trainer.Weights) (err error) {
	p.learner, err = rollout.NewLearner(p.Speaker.Params.Trained(), a, o, needs...)
	return err
}

// Params are the trained weights. Learn comes first.
func (p *Policy) Params() trainer.Params { return p.learner }

// Learner is the trained weights with all that a checkpoint holds.
func (p *Policy) Learner() *rollout.Learner { return p.learner }

// Free gives back what Learn and the last Eval took.
func (p *Policy) Free() {
	p.forget()
	p.learner.Free()
	p.learner = nil
}

// frozen reports whether no weight of the tower is trained.
func (p *Policy) frozen() bool {
	return !slices.ContainsFunc(p.Speaker.Params.Trained(), func(w *autograd.Param) bool { return strings.HasPrefix(w.Name, "visual.") })
}

// Roll plays one episode a key.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	p.seen = map[*trainer.Episode][]float32{}
	samples := make([]trainer.Sample, len(keys))
	asked := map[int]*voice{}
	err := p.learner.With(w, func() error {
		for i, k := range keys {
			if p.Context != nil && p.Context.Err() != nil {
				return p.Context.Err()
			}
			if asked[k.Prompt] == nil {
				v, err := p.asked(k.Prompt)
				if err != nil {
					return fmt.Errorf("prompt %d: %w", k.Prompt, err)
				}
				asked[k.Prompt] = v
			}
			s, err := p.play(k, *asked[k.Prompt])
			if err != nil {
				return fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, err)
			}
			if samples[i] = s; p.Progress != nil {
				p.Progress(i+1, len(keys))
			}
		}
		return nil
	})
	return samples, err
}

// asked is the state in which every episode of a prompt begins.
func (p *Policy) asked(prompt int) (*voice, error) {
	q, err := p.Ask(prompt)
	if err != nil {
		return nil, err
	}
	text, err := p.Speaker.Template.Render(q.Messages, vlm.Rendering{Generate: true})
	if err != nil {
		return nil, err
	}
	v := &voice{p: p, album: tools.NewAlbum(q.Pictures...)}
	if v.prompt, err = v.Code(text, v.album.Pictures); err != nil {
		return nil, err
	}
	return v, nil
}

// play is one episode.
func (p *Policy) play(k trainer.Key, v voice) (trainer.Sample, error) {
	s := trainer.Sample{Key: k}
	v.speech, v.states = v.speech.Clone(), slices.Clone(v.states)
	v.album = &tools.Album{Pictures: slices.Clone(v.album.Pictures)}
	_, v.key = p.Draws.Keys(k)
	ctx := p.Context
	if ctx == nil {
		ctx = context.Background()
	}
	t, err := tools.Episode{Protocol: p.Protocol, State: &tools.State{Album: v.album}, Limits: p.Limits, Sampler: &v, Coder: &v, Prompt: v.prompt}.Play(ctx)
	if err != nil {
		return s, err
	}
	var places []int
	for _, g := range v.speech.Grids[:len(v.album.Pictures)] {
		places = append(places, g.Tokens(p.Speaker.Processor.Merge))
	}
	if err := t.Check(p.Speaker.Marks.Picture, places); err != nil {
		return s, err
	}
	s.Item.Episode = &trainer.Episode{Transcript: t, Album: v.album, Texts: v.texts}
	if p.frozen() {
		p.seen[s.Item.Episode] = v.states
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

// speech is an episode as the network reads it.
func (p *Policy) speech(e *trainer.Episode) (Speech, error) {
	s := Speech{Tokens: e.Tokens, Kinds: make([]int, len(e.Tokens))}
	for i, id := range e.Tokens {
		if id == p.Speaker.Marks.Picture {
			s.Kinds[i] = vlm.PictureToken
		}
	}
	for i, picture := range e.Album.Pictures {
		if picture.Image == nil {
			return s, fmt.Errorf("picture %d of an episode is not at hand", i+1)
		}
		patches, err := p.Speaker.Processor.Apply(picture.Image.Raster())
		if err != nil {
			return s, err
		}
		s.Values, s.Grids = append(s.Values, patches.Values...), append(s.Grids, patches.Grids...)
	}
	return s, nil
}

var errNotRolled = errors.New("a point of this policy is an episode: it has none")
