package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A Executor does jobs on a worker's machine: it opens what a job's setup says, takes its weights, and rolls.
type Executor struct {
	Blobs Blobs
	About About
	// Open opens the run's model; ctx stops its rolls.
	Open func(ctx context.Context, s Setup) (model.Model, *experiment.Experiment, error)

	setup   Blob // that is open
	weights Blob // that the model has
	model   model.Model
	travels model.Travelling
	e       *experiment.Experiment
	ctx     *changing
	unseen  atomic.Bool  // the samples of the job under way are held out
	moved   atomic.Int64 // when the job under way last went on
	ahead   []int        // prompts that jobs to come will probably name
}

// Moved is Worker.Moved. Of held-out samples no pass is told: they count as if they went on.
func (s *Executor) Moved() time.Time {
	if s.unseen.Load() {
		return time.Now()
	}
	return time.Unix(0, s.moved.Load())
}

// Passed is told of every pass of the network (model.Options.Progress).
func (s *Executor) Passed(int, int) { s.moves() }
func (s *Executor) moves()          { s.moved.Store(time.Now().UnixNano()) }

// Ahead are the prompts of the job under way and of those that follow, for the model that Open opens.
func (s *Executor) Ahead() []int { return s.ahead }

// Do is Worker.Do.
func (s *Executor) Do(ctx context.Context, j Job) (payload []byte, err error) {
	defer unfit(&err)
	defer kernels.Recover(&err)
	s.moves()
	if err := s.open(ctx, j.Setup); err != nil {
		return nil, err
	}
	s.moves()
	if err := s.take(ctx, j.Weights); err != nil {
		return nil, err
	}
	s.moves()
	s.ctx.be(ctx)
	defer s.ctx.be(context.Background())
	return s.roll(ctx, j)
}

// unfit ends a worker whose device failed: it can do nothing more with it.
func unfit(err *error) {
	if lost := kernels.DeviceError(nil); errors.As(*err, &lost) {
		*err = Unfit{*err}
	}
}

// open opens another run's model, or this one's for the first time.
func (s *Executor) open(ctx context.Context, setup Blob) error {
	if s.model != nil && s.setup == setup {
		return nil
	}
	said, err := fetchSetup(ctx, s.Blobs, setup, s.About)
	if err != nil {
		return err
	}
	if err := SameClass(said, s.About); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	s.ctx = newChanging()
	if s.model, s.e, err = s.Open(s.ctx, said); err != nil {
		s.model = nil
		return Unfit{err}
	}
	var ok bool
	if s.travels, ok = s.model.(model.Travelling); !ok {
		return Unfit{errors.New("this version of the program cannot roll the run's samples elsewhere")}
	}
	s.setup, s.weights = setup, Blob{}
	return nil
}

// take has the weights of a job.
func (s *Executor) take(ctx context.Context, weights Blob) error {
	if s.weights == weights {
		return nil
	}
	data, err := s.Blobs.Get(ctx, weights)
	if err != nil {
		return fmt.Errorf("fetching the weights %s: %w", weights.Hash.Short(), err)
	}
	f, err := safetensors.Read("the trainer's weights", data)
	if err != nil {
		return err
	}
	s.weights = Blob{} // what fails half-way leaves none
	if err := s.travels.Take(f); err != nil {
		return err
	}
	s.weights = weights
	return nil
}

// roll rolls a job's samples.
func (s *Executor) roll(ctx context.Context, j Job) ([]byte, error) {
	turn, err := j.How.turn(s.e)
	if err != nil {
		return nil, err
	}
	policy := trainer.Policy(s.model)
	s.unseen.Store(j.How.Fixed)
	if j.How.Fixed {
		policy = s.model.Fixed(ctx, turn, j.How.Root)
	} else if err := s.model.Begin(turn, j.How.Root, 1); err != nil {
		return nil, err
	}
	s.ahead = j.Ahead
	samples, err := policy.Roll(trainer.Current, j.All())
	if err != nil {
		return nil, err
	}
	s.moves()
	return develop(s.model, samples, j, 0)
}

// Close lets go of the model.
func (s *Executor) Close() error {
	if s.model == nil {
		return nil
	}
	m := s.model
	s.model = nil
	return m.Close()
}
