package conversations

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/engine"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: an engine from outside ([episode.engine], package trainer/engine) draws the tokens of training's episodes.
// Tools, pictures, limits and the tokens of everything that the model reads stay here. The engine is given tokens and
// pictures, and gives tokens with their log-probabilities.
//
//	weights   the adapter is written into a folder of its own and loaded under a name of its own, for every roll whose
//	          weights moved; turns are asked for by that name
//	check     before a roll by new weights the words of a question behind its picture are scored there and here
//	          (enginecheck.go): other tokens, dropped pictures, stale weights and other arithmetic are refused by name
//	roll      every turn's answer is held to what was asked: tokens read, tokens drawn, log-probabilities, version. An
//	          engine that is slow, dies or lies makes the episode missing, never 0; stale weights end the run
//	learning  the network here says anew how likely every token was. First ratios are exactly 1, and what the engine
//	          said is the sampler's in [loss.correction], which is on (truncated importance sampling)
//
// Evaluations, likeliest answers and averages of weights are drawn here. What an engine draws is no function of the
// run's seed: a run with one has other tokens each time.
//
// Invariants (tests): each fault is named; what an episode is judged by has the bits of Eval.

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
	base      string                 // what the engine calls the weights below it
	probe     *probe                 // the question that every version is checked by
	Gap       float64                // how far its log-probabilities lay from ours in the last check, root mean square
}

// openFar opens the engine that an experiment names; nil where there is none.
func openFar(e *experiment.Experiment) (*Engine, error) {
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

// Close removes what was written, and takes the adapter away. An engine that is gone needs neither.
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

// bring gives the engine the weights as they are, under a new name.
func (f *Engine) bring(ctx context.Context) error {
	if f.name != "" && !f.moved {
		return nil
	}
	next, sum, err := f.written()
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

// written writes the adapter into a folder whose name no other run has: several may share the parent and the engine,
// and a run that was killed leaves its own. Whoever runs the engine may read it.
func (f *Engine) written() (dir, sum string, err error) {
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

// question is a sequence as the engine is asked about it.
func (f *Engine) question(v *episodeSampler, short []int32) (q engine.Question, err error) {
	k := v.p.Speaker
	if v.films != nil {
		return q, errors.New("an engine is asked about pictures, and a question has a clip\nhint: leave [episode.engine] out: episodes are drawn here then")
	}
	q = engine.Question{Short: short, Place: k.Marks.Picture, Temperature: v.p.Sampling.Temperature, End: k.End, Banned: k.Banned, Vocabulary: k.Model.Text.Vocabulary, Adapter: f.name}
	for i, p := range v.album.Pictures {
		q.Pictures = append(q.Pictures, engine.Picture{Hash: p.Hash(), Image: p.Image, Places: v.grids[i].Tokens(k.Processor.Merge)})
	}
	q.IDs, _, err = k.Marks.Expand(short, v.grids[:len(v.album.Pictures)], nil, k.Processor.Merge)
	return q, err
}

// ask has a turn drawn by an adapter that must be the one that was loaded, above weights that stay what they were.
func (f *Engine) ask(ctx context.Context, q engine.Question) (engine.Answer, error) {
	a, err := f.Ask(ctx, q)
	if err == nil && a.Version != f.base {
		err = engine.Refuse(engine.Stale, "the engine at %s calls its weights %q now, and called them %q when it was checked: somebody else has changed them", f.At, a.Version, f.base)
	}
	return a, err
}

// rollFar is rollAll by an engine.
func (p *Policy) rollFar(keys []trainer.Key) ([]trainer.Sample, error) {
	ctx := p.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if err := p.Far.bring(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	defer p.Far.Forget()
	var samples []trainer.Sample
	err := p.learner.With(trainer.Current, func() error {
		if !p.Far.checked {
			if err := p.checkFar(ctx, keys[0]); err != nil {
				return fmt.Errorf("%w\nhint: nothing was learned from this engine; without [episode.engine] episodes are drawn here", err)
			}
			p.Far.checked = true
		}
		var err error
		samples, err = p.playFar(ctx, keys)
		return err
	})
	return samples, err
}
