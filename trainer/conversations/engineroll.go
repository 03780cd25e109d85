package conversations

import (
	"context"
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/engine"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// How an engine plays episodes (engine.go).

// playFar plays one episode a key, as many beside each other as the engine is asked at once. Each is judged here as it
// ends, while the engine draws others. The error is that of the first key that has one.
func (p *Policy) playFar(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	samples, errs, ended := make([]trainer.Sample, len(keys)), make([]error, len(keys)), make(chan int)
	go p.askFar(ctx, keys, samples, errs, ended)
	done := 0
	for i := range ended {
		if errs[i] == nil {
			errs[i] = ctx.Err()
		}
		if errs[i] == nil {
			errs[i] = p.judgeFar(&samples[i])
		}
		if errs[i] != nil {
			stop()
			continue
		}
		if done++; p.Progress != nil {
			p.Progress(done, len(keys))
		}
	}
	return samples, blamed(errs)
}

// askFar has the engine play episodes, and says of each when it has ended.
func (p *Policy) askFar(ctx context.Context, keys []trainer.Key, samples []trainer.Sample, errs []error, ended chan<- int) {
	defer close(ended)
	free := make(chan struct{}, 2*max(1, p.Far.AtOnce)) // the engine is asked at_once, while others are with their tools
	var all sync.WaitGroup
	defer all.Wait()
	var asked *episodeSampler
	for i, k := range keys {
		if i == 0 || keys[i-1].Prompt != k.Prompt {
			var err error
			if asked, err = p.question(k); err != nil {
				errs[i] = fmt.Errorf("prompt %d: %w", k.Prompt, err)
				ended <- i
				return
			}
		}
		v := asked.begun(k)
		v.unread = vlm.Stretch{}
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

// blamed is the first error that is no consequence of another.
func blamed(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || stopped(first) && !stopped(err)) {
			first = err
		}
	}
	return first
}

// sampleFar has a turn drawn by the engine. One that fails it makes the episode missing; stale weights end the run,
// since every episode would be as stale.
func (v *episodeSampler) sampleFar(ctx context.Context, short []int32) (tools.Sampled, error) {
	lost := tools.Sampled{Cut: true, ModelLogProb: []float64{}}
	q, err := v.p.Far.question(v, short)
	if err != nil {
		return lost, err
	}
	if q.Most = v.room(); q.Most <= 0 {
		return lost, nil
	}
	v.unread = vlm.Stretch{} // the engine reads from the beginning
	a, err := v.p.Far.ask(ctx, q)
	switch {
	case ctx.Err() != nil:
		return lost, ctx.Err()
	case engine.Refused(err) == engine.Stale:
		return lost, err
	case err != nil:
		v.lost = err
		v.texts = append(v.texts, "")
		return lost, nil
	}
	v.said, v.last = v.said+len(a.IDs), a.IDs[len(a.IDs)-1]
	s := tools.Sampled{IDs: a.IDs, LogProb: a.LogProbs, ModelLogProb: a.LogProbs, Cut: v.last != v.p.Speaker.End, Text: v.p.Speaker.Tokens.DecodePlain(a.IDs)}
	v.texts = append(v.texts, s.Text)
	return s, nil
}

// judgeFar says of every token how likely the network here finds it. An episode's entropy is estimated by what was
// drawn, -Σ log p, since the distributions were the engine's.
func (p *Policy) judgeFar(s *trainer.Sample) error {
	e := EpisodeOf(*s)
	if len(s.Decisions.Step) == 0 {
		return nil
	}
	h, err := p.hear(trainer.Point{Key: s.Key, Episode: e}, false)
	if err != nil {
		return fmt.Errorf("sample %d of prompt %d, judged here: %w", s.Key.Sample, s.Key.Prompt, err)
	}
	ours := h.outputs()
	h.tape.Reset()
	e.Entropy = 0
	for k, at := range s.Decisions.Step {
		e.ModelLogProb[at] = ours[k]
		e.Entropy -= ours[k]
	}
	s.Decisions.LogProb = ours
	return nil
}
