package rollout

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/engine"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: an engine from outside ([episode.engine], package trainer/engine) draws the tokens of training's episodes.
// Tools, pictures, limits and the tokens of everything that the model reads stay here. The engine is given tokens and
// pictures, and gives tokens with their log-probabilities.
//
//	weights   the adapter is written into a folder of its own and loaded under a name of its own, for every roll whose
//	          weights moved; turns are asked for by that name
//	check     before a roll by new weights the words of a question behind its picture are scored there and here
//	          (checkEngine): other tokens, dropped pictures, stale weights and other arithmetic are refused by name
//	roll      every turn's answer is compared with its request: tokens read, tokens drawn, log-probabilities, version. An
//	          engine that is slow, dies or lies makes the episode missing, never 0; stale weights end the run
//	learning  the network here says anew how likely every token was. First ratios are exactly 1, and the engine's
//	          said is the sampler's in [loss.correction], which is on (truncated importance sampling)
//
// Evaluations, likeliest answers and averages of weights are drawn here. An engine's tokens are not a function of the
// run's seed: a run with one has other tokens each time.
//
// Invariants (tests): each fault is named; an episode's log-probabilities have the bits of Eval.

// A Engine is an engine that plays a policy's episodes.
type Engine struct {
	*engine.Engine
	Tolerance float64
	Folder    string                 // of adapters, a folder a version
	Write     func(dir string) error // writes the adapter as it is now
	own       bool                   // Folder is ours to remove
	moved     bool                   // weights may be others than those that were loaded
	checked   bool                   // the engine was checked with those that were loaded
	sum       string                 // of the adapter that was loaded
	name, dir string                 // of it
	base      string                 // the engine's name for the weights below it
	probe     *probe                 // the question that every version is checked by
	Gap       float64                // how far its log-probabilities lay from ours in the last check, root mean square
}

// OpenEngine opens the engine that an experiment names; nil without one.
func OpenEngine(e *experiment.Experiment) (*Engine, error) {
	o := e.Episode.Engine
	if o == nil {
		return nil, nil
	}
	name, key := o.Model, ""
	if name == "" {
		name = e.Model.Path
	}
	if o.KeyEnv != "" {
		if key = os.Getenv(o.KeyEnv); key == "" {
			return nil, fmt.Errorf("episode.engine: the environment variable %s, which key_env names, is empty", o.KeyEnv)
		}
	}
	opened, err := engine.Open(engine.Options{Kind: o.Kind, URL: o.URL, Model: name, Key: key, Timeout: time.Duration(o.Timeout * float64(time.Second)), Tries: o.Tries, AtOnce: o.AtOnce})
	if err != nil {
		return nil, err
	}
	f := &Engine{Engine: opened, Tolerance: o.Tolerance, Folder: o.Folder}
	if f.Folder == "" {
		f.own = true
		if f.Folder, err = os.MkdirTemp("", "darkroom-engine-"); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close removes written files, and takes the adapter away. An engine that is gone needs neither.
func (f *Engine) Close() error {
	if f == nil {
		return nil
	}
	if f.name != "" {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		_ = f.Unload(ctx, f.name)
	}
	if f.own {
		return os.RemoveAll(f.Folder)
	}
	if f.dir != "" {
		return os.RemoveAll(f.dir)
	}
	return nil
}

// Moved says that weights may have changed since the last roll.
func (f *Engine) Moved() {
	if f != nil {
		f.moved = true
	}
}

// publish gives the engine the weights as they are, under a new name.
func (f *Engine) publish(ctx context.Context) error {
	if f.name != "" && !f.moved {
		return nil
	}
	next, sum, err := f.writeAdapter()
	if err != nil {
		return fmt.Errorf("writing the adapter for the engine: %w", err)
	}
	if sum == f.sum {
		f.moved = false
		return os.RemoveAll(next)
	}
	name := fmt.Sprintf("%s-%s", filepath.Base(next), sum[:12])
	if err := f.Load(ctx, name, next); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	before, dir := f.name, f.dir
	f.sum, f.name, f.dir, f.moved, f.checked = sum, name, next, false, false
	if before == "" {
		return nil
	}
	if err := f.Unload(ctx, before); err != nil {
		return fmt.Errorf("the engine keeps the adapter %s: %w", before, err)
	}
	return os.RemoveAll(dir)
}

// writeAdapter writes the adapter into a folder whose name no other run has: several may share the parent and the
// engine, and a run that was killed leaves its own. The engine's user may read it.
func (f *Engine) writeAdapter() (dir, sum string, err error) {
	parent, err := filepath.Abs(f.Folder)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", "", err
	}
	if dir, err = os.MkdirTemp(parent, "darkroom-"); err != nil {
		return "", "", err
	}
	var text []byte
	if err = errors.Join(os.Chmod(dir, 0o755), f.Write(dir)); err == nil {
		text, err = os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
	}
	if err != nil {
		return "", "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// request is a sequence as the engine is asked about it.
func (f *Engine) request(v *EpisodeSampler, short []int32) (q engine.Request, err error) {
	k := v.Policy.VLM
	if v.Videos != nil {
		return q, errors.New("an engine is asked about pictures, and a question has a clip\nhint: leave [episode.engine] out: episodes are drawn here then")
	}
	q = engine.Request{Short: short, Place: k.Marks.Picture, Temperature: v.Policy.Sampling.Temperature, End: k.End, Banned: k.Banned, Vocabulary: k.Model.Text.Vocabulary, Adapter: f.name}
	for i, p := range v.Album.Pictures {
		q.Pictures = append(q.Pictures, engine.Picture{Hash: p.Hash(), Image: p.Image, Places: v.grids[i].Tokens(k.Processor.Merge)})
	}
	q.IDs, _, err = k.Marks.Expand(short, v.grids[:len(v.Album.Pictures)], nil, k.Processor.Merge)
	return q, err
}

// generate has a turn drawn by an adapter that must be the loaded one, above unchanged weights.
func (f *Engine) generate(ctx context.Context, q engine.Request) (engine.Completion, error) {
	a, err := f.Generate(ctx, q)
	if err == nil && a.Version != f.base {
		err = engine.Refuse(engine.Stale, "the engine at %s calls its weights %q now, and called them %q when it was checked: somebody else has changed them", f.At, a.Version, f.base)
	}
	return a, err
}

// rollEngine is rollAll by an engine.
func (p *Policy) rollEngine(keys []trainer.Key) ([]trainer.Sample, error) {
	ctx := p.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if err := p.Engine.publish(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	defer p.Engine.Forget()
	var samples []trainer.Sample
	err := p.Learner.With(trainer.Current, func() error {
		if !p.Engine.checked {
			if err := p.checkEngine(ctx, keys[0]); err != nil {
				return fmt.Errorf("%w\nhint: nothing was learned from this engine; without [episode.engine] episodes are drawn here", err)
			}
			p.Engine.checked = true
		}
		var err error
		samples, err = p.playEngine(ctx, keys)
		return err
	})
	return samples, err
}

// How an engine plays episodes (engine.go).

// playEngine plays one episode a key, as many beside each other as the engine is asked at once. Each is judged here
// as it ends, while the engine draws others. The error is that of the first key that has one.
func (p *Policy) playEngine(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	samples, errs, ended := make([]trainer.Sample, len(keys)), make([]error, len(keys)), make(chan int)
	go p.requestEpisodes(ctx, keys, samples, errs, ended)
	done := 0
	for i := range ended {
		if errs[i] == nil {
			errs[i] = ctx.Err()
		}
		if errs[i] == nil {
			errs[i] = p.scoreEngineEpisode(&samples[i])
		}
		if errs[i] != nil {
			stop()
			continue
		}
		if done++; p.Progress != nil {
			p.Progress(done, len(keys))
		}
	}
	return samples, firstCause(errs)
}

// requestEpisodes has the engine play episodes, and says of each when it has ended.
func (p *Policy) requestEpisodes(ctx context.Context, keys []trainer.Key, samples []trainer.Sample, errs []error, ended chan<- int) {
	defer close(ended)
	free := make(chan struct{}, 2*max(1, p.Engine.AtOnce)) // the engine is asked at_once, while others are with their tools
	var all sync.WaitGroup
	defer all.Wait()
	var asked *EpisodeSampler
	for i, k := range keys {
		if i == 0 || keys[i-1].Prompt != k.Prompt {
			var err error
			if asked, err = p.Start(k); err != nil {
				errs[i] = fmt.Errorf("prompt %d: %w", k.Prompt, err)
				ended <- i
				return
			}
		}
		v := asked.fork(k)
		v.Unread = vlm.Stretch{}
		free <- struct{}{}
		all.Go(func() {
			s, err := p.play(ctx, k, v)
			if samples[i] = s; err != nil {
				errs[i] = fmt.Errorf("sample %d of prompt %d: %w", k.Sample, k.Prompt, err)
			}
			<-free
			ended <- i
		})
	}
}

// firstCause is the first error that is not a consequence of another.
func firstCause(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || canceled(first) && !canceled(err)) {
			first = err
		}
	}
	return first
}

// sampleByEngine has a turn drawn by the engine. One that fails it makes the episode missing; stale weights end the
// run, since every episode would be as stale.
func (v *EpisodeSampler) sampleByEngine(ctx context.Context, short []int32) (tools.Sampled, error) {
	lost := tools.Sampled{Cut: true, ModelLogProb: []float64{}}
	q, err := v.Policy.Engine.request(v, short)
	if err != nil {
		return lost, err
	}
	if q.Most = v.room(); q.Most <= 0 {
		return lost, nil
	}
	v.Unread = vlm.Stretch{} // the engine reads from the beginning
	a, err := v.Policy.Engine.generate(ctx, q)
	switch {
	case ctx.Err() != nil:
		return lost, ctx.Err()
	case engine.Refused(err) == engine.Stale:
		return lost, err
	case err != nil:
		v.Lost = err
		v.texts = append(v.texts, "")
		return lost, nil
	}
	v.Length, v.last = v.Length+len(a.IDs), a.IDs[len(a.IDs)-1]
	s := tools.Sampled{IDs: a.IDs, LogProb: a.LogProbs, ModelLogProb: a.LogProbs, Cut: v.last != v.Policy.VLM.End, Text: v.Policy.VLM.Tokens.DecodePlain(a.IDs)}
	v.texts = append(v.texts, s.Text)
	return s, nil
}

// scoreEngineEpisode says of every token how likely the network here finds it. An episode's entropy is estimated by
// its tokens, -Σ log p, since the distributions were the engine's.
func (p *Policy) scoreEngineEpisode(s *trainer.Sample) error {
	e := EpisodeOf(*s)
	if len(s.Decisions.Step) == 0 {
		return nil
	}
	ours, err := p.LogProbs(*s)
	if err != nil {
		return fmt.Errorf("sample %d of prompt %d, judged here: %w", s.Key.Sample, s.Key.Prompt, err)
	}
	e.Entropy = 0
	for k, at := range s.Decisions.Step {
		e.ModelLogProb[at] = ours[k]
		e.Entropy -= ours[k]
	}
	s.Decisions.LogProb = ours
	return nil
}

// The check of an engine (engine.go): the words of a question behind its first picture are scored there and here, and a
// few tokens are drawn there and scored here. Four sequences of numbers are compared by the root mean square of their
// differences:
//
//	here      by the weights as they are, with the pictures: the engine must lie within the tolerance
//	blind     the same with grey pictures: an engine that lies nearer to this does not see them
//	before    by the weights that were loaded before: an engine that lies nearer to this has not taken the new ones,
//	          and one that returns its earlier scores, to the bit, has not either
//	untold    of the tokens that it drew, at temperature 1: log-probabilities before the temperature
//
// Prompts' log-probabilities are at temperature 1 in both engines.

// A probe is a prompt, and the scores of its words at one version of the weights.
type probe struct {
	v            *EpisodeSampler
	at           []int     // places of words that the engine scored
	ours, theirs []float64 // of all the question's tokens
}

// checkTokens is how many tokens an engine draws to be checked.
const checkTokens = 16

// leastMove is how far log-probabilities must move before it counts that an engine's did not.
const leastMove = 1e-3

// checkEngine holds the engine to our own network.
func (p *Policy) checkEngine(ctx context.Context, k trainer.Key) error {
	f := p.Engine
	v := (*EpisodeSampler)(nil)
	if f.probe != nil {
		v = f.probe.v
	} else {
		var err error
		if v, err = p.Start(k); err != nil {
			return err
		}
	}
	q, err := f.request(v, v.Prompt.Engine)
	if err != nil {
		return err
	}
	q.Score, q.Most = true, checkTokens
	a, err := f.Generate(ctx, q)
	if err != nil {
		return err
	}
	if f.probe == nil {
		f.base = a.Version
	}
	all := slices.Concat(q.IDs, a.IDs)
	seen := imagesOf(v.Album.Pictures)
	here, err := p.VLM.Scores(all, seen, 1)
	if err != nil {
		return err
	}
	blind, err := p.VLM.Scores(all, augment.Grey(seen), 1)
	if err != nil {
		return err
	}
	told, err := p.VLM.Scores(all, seen, p.Sampling.Temperature)
	if err != nil {
		return err
	}
	at := q.Scored(a)
	if len(at) < 2 {
		return engine.Refuse(engine.NoLogProbs, "the engine at %s scores %d words of the question", f.At, len(at))
	}
	now := &probe{v: v, at: at, ours: here, theirs: a.Scores}
	n := len(q.IDs)
	if err := f.compare(now, blind, len(q.Pictures) > 0); err != nil {
		return err
	}
	if d := RMSDifference(a.LogProbs, told[n:]); d > f.Tolerance {
		if RMSDifference(a.LogProbs, here[n:]) < d/2 {
			return engine.Refuse(engine.OtherNumbers, "of tokens drawn at temperature %v the engine at %s says how likely they are at temperature 1: start vLLM with --logprobs-mode processed_logprobs", p.Sampling.Temperature, f.At)
		}
		return engine.Refuse(engine.OtherNumbers, "tokens that the engine at %s drew have log-probabilities that lie %.3g from ours (episode.engine.tolerance is %v)", f.At, d, f.Tolerance)
	}
	f.probe = now
	return nil
}

// compare finds the weights that an engine's scores are nearest to.
func (f *Engine) compare(now *probe, blind []float64, pictures bool) error {
	f.Gap = now.apart(now.theirs, now.ours)
	nearer := func(other []float64) bool {
		return now.apart(now.ours, other) > leastMove && now.apart(now.theirs, other) < f.Gap/2
	}
	if before := f.probe; before != nil {
		moved := now.apart(now.ours, before.ours)
		if nearer(before.ours) || moved > leastMove && slices.Equal(now.at, before.at) && now.apart(now.theirs, before.theirs) == 0 {
			return engine.Refuse(engine.Stale, "the engine at %s was given the adapter %s, and scores the question's words as by the one before it, from which ours moved by %.3g", f.At, f.name, moved)
		}
	}
	if pictures && nearer(blind) {
		return engine.Refuse(engine.LostPictures, "what the engine at %s says of the words behind a picture lies %.3g from ours, and nearer to what we say behind a grey one", f.At, f.Gap)
	}
	if !(f.Gap <= f.Tolerance) {
		return engine.Refuse(engine.OtherNumbers, "what the engine at %s says of a question's words lies %.3g from ours, and episode.engine.tolerance is %v: it has other weights, another precision, or sees other pictures", f.At, f.Gap, f.Tolerance)
	}
	return nil
}

// imagesOf are pictures without their place in an episode.
func imagesOf(pictures []tools.Picture) (all []*vision.Image) {
	for _, p := range pictures {
		all = append(all, p.Image)
	}
	return all
}

// apart is apart of the words that the engine scored.
func (p *probe) apart(a, b []float64) float64 {
	var x, y []float64
	for _, i := range p.at {
		x, y = append(x, a[i]), append(y, b[i])
	}
	return RMSDifference(x, y)
}

// RMSDifference is the root mean square of differences.
func RMSDifference(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		d := a[i] - b[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(max(1, len(a))))
}

// canceled reports whether an error only says that something else ended the work.
func canceled(err error) bool { return errors.Is(err, context.Canceled) }
