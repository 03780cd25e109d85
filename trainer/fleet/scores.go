package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/rewards"
)

// Rewards on workers: servers and programs are asked from other machines, many at a time, and networks compute there.
// A job is a group of samples and a reward. A reward that gives no score there is asked here, whatever comes of it.
//
// A server's or a program's score does not follow from its input: the first result is the job's, and none is
// compared. A network's does, and a share of such jobs is done here again, as those of rolls are.

// A Scoring is a worker's questions to a reward.
type Scoring struct {
	Reward string `json:"reward"` // its label in the experiment
	Items  Blob   `json:"items"`  // the blob that has them
	Count  int    `json:"count"`
	// Network says that the reward computes, and that its result follows from the job's name.
	Network bool `json:"network,omitempty"`
}

// Patient are the rules of fleets that score.
func Patient() Rules {
	r := Usual()
	r.Tries = 2 // a reward that fails on two machines is asked here
	return r
}

// Scores has a run's rewards asked by workers.
type Scores struct {
	fleet   *Fleet
	setup   Blob
	network bool
	open    *Batch // without a job, so that workers' events are taken
}

// OpenScores opens it, for rewards outside of the program or those that are networks.
func (f *Fleet) OpenScores(s Setup, network bool) (*Scores, error) {
	data, err := s.pack()
	if err != nil {
		return nil, err
	}
	setup, err := f.Hub.Put(context.Background(), data)
	if err != nil {
		return nil, fmt.Errorf("fleet: publishing the run's setup: %w", err)
	}
	open, err := f.Begin(context.Background(), Work{})
	return &Scores{fleet: f, setup: setup, network: network, open: open}, err
}

// Close lets workers go unheard.
func (s *Scores) Close() {
	if s != nil {
		s.open.Drop()
	}
}

// There reports whether a worker is.
func (s *Scores) There() bool { return s.fleet.Workers() > 0 }

// Score has a group judged by a worker, or here where no worker exists or answers.
func (s *Scores) Score(ctx context.Context, reward string, items []rewards.Item, own rewards.Judge) []rewards.Result {
	if !s.There() {
		return own.Judge(ctx, items)
	}
	var here []rewards.Result
	results, err := s.ask(ctx, reward, items, func(ctx context.Context, j Job) (payload []byte, err error) {
		defer kernels.Recover(&err) // a network's device
		got := own.Judge(ctx, items)
		if ctx.Err() != nil { // a worker was quicker, and nothing was asked to its end
			return nil, ctx.Err()
		}
		here = got
		return packResults(j, here)
	})
	switch {
	case here != nil:
		return here
	case err == nil:
		return confirmed(ctx, results, items, own)
	case ctx.Err() == nil:
		s.fleet.Tell("warning: fleet: reward %s is asked here: %v", reward, err)
		return own.Judge(ctx, items)
	}
	results = make([]rewards.Result, len(items))
	for i := range results {
		results[i].Missing = ctx.Err()
	}
	return results
}

// confirmed are results of which none is missing by a worker's word alone: a reward that has no score there has none
// here.
func confirmed(ctx context.Context, results []rewards.Result, items []rewards.Item, own rewards.Judge) []rewards.Result {
	if !slices.ContainsFunc(results, func(r rewards.Result) bool { return r.Missing != nil }) {
		return results
	}
	again := own.Judge(ctx, items)
	for i := range results {
		if results[i].Missing != nil && i < len(again) {
			results[i] = again[i]
		}
	}
	return results
}

func (s *Scores) ask(ctx context.Context, reward string, items []rewards.Item, here Doing) ([]rewards.Result, error) {
	data, err := PackItems(items)
	if err != nil {
		return nil, err
	}
	j := Job{Setup: s.setup, Score: &Scoring{Reward: reward, Items: BlobOf(data), Count: len(items), Network: s.network}, Keys: []Keys{{Samples: len(items)}}}
	if _, err := s.fleet.Hub.Put(ctx, data); err != nil {
		return nil, err
	}
	late := context.WithoutCancel(ctx)
	defer func() { // a kept result is deleted in some hours
		_ = s.fleet.Forget(late, []Hash{j.Name()})
		_ = s.fleet.Hub.Drop(late, j.Score.Items.Hash)
	}()
	check := func(j Job, payload []byte) error {
		_, err := unpackResults(j, payload)
		return err
	}
	payloads, err := s.fleet.Do(ctx, Work{Jobs: []Job{j}, Here: here, Check: check, Most: mostScores, Impure: !s.network})
	if err != nil {
		return nil, err
	}
	return unpackResults(j, payloads[0])
}

// A Panel does jobs that score, on a worker's machine.
type Panel struct {
	Blobs Blobs
	About About
	// Open opens a run's rewards: by label, and how they are closed.
	Open func(s Setup) (ask map[string]rewards.Judge, done func() error, err error)

	setup Blob
	ask   map[string]rewards.Judge
	done  func() error
}

// A Refusal takes the place of a reward whose acts a worker does not allow here: its jobs are for others.
type Refusal struct{ Why error }

func (r Refusal) Error() string { return r.Why.Error() }
func (r Refusal) Unwrap() error { return r.Why }

// Judge is rewards.Judge's: nothing is judged.
func (r Refusal) Judge(_ context.Context, items []rewards.Item) []rewards.Result {
	all := make([]rewards.Result, len(items))
	for i := range all {
		all[i].Missing = r.Why
	}
	return all
}

// Do is Worker.Do.
func (p *Panel) Do(ctx context.Context, j Job) (payload []byte, err error) {
	if j.Score == nil {
		return nil, fmt.Errorf("job %s is for workers that roll", j)
	}
	defer unfit(&err)
	defer kernels.Recover(&err)
	if err := p.open(ctx, j.Setup); err != nil {
		return nil, err
	}
	judge := p.ask[j.Score.Reward]
	if judge == nil {
		return nil, fmt.Errorf("reward %s is none that this worker asks", j.Score.Reward)
	}
	if no, ok := judge.(Refusal); ok {
		return nil, no
	}
	data, err := p.Blobs.Get(ctx, j.Score.Items)
	if err != nil {
		return nil, fmt.Errorf("fetching what reward %s is to judge: %w", j.Score.Reward, err)
	}
	items, err := UnpackItems(data)
	if err != nil {
		return nil, err
	}
	results := judge.Judge(ctx, items)
	if len(results) != len(items) {
		return nil, fmt.Errorf("reward %s judged %d of %d samples", j.Score.Reward, len(results), len(items))
	}
	return packResults(j, results)
}

// open opens another run's rewards, or this one's for the first time.
func (p *Panel) open(ctx context.Context, setup Blob) error {
	if p.ask != nil && p.setup == setup {
		return nil
	}
	said, err := fetchSetup(ctx, p.Blobs, setup, p.About)
	if err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if p.ask, p.done, err = p.Open(said); err != nil {
		p.ask = nil
		return Unfit{err}
	}
	p.setup = setup
	return nil
}

// Close lets go of the rewards.
func (p *Panel) Close() error {
	if p.ask == nil {
		return nil
	}
	p.ask = nil
	return p.done()
}
