package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A Setup is the run as a worker opens it before its first job: the parts that do not change while a run goes on.
type Setup struct {
	Version string           `json:"version"` // of the program
	Class   string           `json:"class"`   // of arithmetic: two of one class compute the same bits
	Config  string           `json:"config"`  // the resolved experiment
	Model   Hash             `json:"model"`   // of the list of the model's files and their sums
	Files   json.RawMessage  `json:"files"`   // that list
	Train   []prompts.Prompt `json:"train"`
	HeldOut []prompts.Prompt `json:"heldout,omitempty"`

	// Networks are the rewards that workers may compute, by label, and the files that each reads, of folders outside
	// of the program.
	Networks map[string]json.RawMessage `json:"networks,omitempty"`

	Lists []prompts.Stretch `json:"lists,omitempty"` // that the prompts stand in, training's first
}

// pack is the setup as bytes, whose hash is its name.
func (s Setup) pack() ([]byte, error) { return json.Marshal(s) }

// fetchSetup fetches a job's run, for a worker of its version.
func fetchSetup(ctx context.Context, from Blobs, setup Blob, about About) (s Setup, err error) {
	data, err := from.Get(ctx, setup)
	if err != nil {
		return s, fmt.Errorf("fetching the run's setup: %w", err)
	}
	if s, err = unpackSetup(data); err == nil && s.Version != about.Version {
		err = Unfit{fmt.Errorf("the trainer runs version %s of the program, and this worker %s: their numbers may differ\nhint: run the same file on all machines", s.Version, about.Version)}
	}
	return s, err
}

// SameClass refuses a worker whose arithmetic has other bits than the trainer's.
func SameClass(s Setup, about About) error {
	if s.Class == about.Class {
		return nil
	}
	return Unfit{fmt.Errorf("the trainer computes as %q, and this worker as %q: their bits differ\nhint: DARKROOM_CUDA=exact has the CPU's bits on every device", s.Class, about.Class)}
}

// unpackSetup is pack's way back.
func unpackSetup(data []byte) (s Setup, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("the run's setup: %w", err)
	}
	if len(s.Train) == 0 || s.Config == "" {
		return s, errors.New("the run's setup has no experiment or no prompts")
	}
	return s, nil
}

// A Worker takes jobs and does them, until it is stopped.
type Worker struct {
	Name  string
	Link  Link
	About About
	Beat  time.Duration // how often it says that it is there
	// Do does a job, and stops when ctx ends. An error of type Unfit ends the worker.
	Do   func(ctx context.Context, j Job) (payload []byte, err error)
	Logf func(format string, args ...any)
	// Moved is when the job under way was last seen to go on; nil: nobody sees. A worker whose job does not go on for
	// Hang falls silent, so that others do the job: a device that hangs does not keep its process from speaking.
	Moved func() time.Time
	Hang  time.Duration // 0: it never falls silent

	since atomic.Int64 // the beginning of the job under way, in nanoseconds since 1970; 0: idle
	hung  atomic.Bool
}

// hangs reports whether the job under way does not go on.
func (w *Worker) hangs() bool {
	since := time.Unix(0, w.since.Load())
	if w.Moved == nil || w.Hang == 0 || w.since.Load() == 0 || time.Since(since) < w.Hang || time.Since(w.Moved()) < w.Hang {
		w.hung.Store(false)
		return false
	}
	if !w.hung.Swap(true) {
		w.Logf("warning: nothing of the job under way has moved for %v: this worker falls silent, and the trainer gives the job to others\nhint: where the device hangs, end this worker and start it anew", w.Hang)
	}
	return true
}

// Unfit is why a worker can do none of a run's jobs.
type Unfit struct{ Err error }

func (u Unfit) Error() string { return u.Err.Error() }
func (u Unfit) Unwrap() error { return u.Err }

// Run works until ctx ends, the run is over (ErrOver) or the worker is dismissed.
// Its job is given back when ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	hello, quiet := context.WithCancel(ctx)
	defer quiet()
	go w.hellos(hello)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = w.Link.Send(last, Event{Kind: Bye}) // a trainer without this event misses the worker soon
	}()
	failed := 0
	for {
		j, err := w.Link.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrOver):
			return err
		case err != nil:
			return fmt.Errorf("waiting for a job: %w", err)
		}
		err = w.one(ctx, j)
		var unfit Unfit
		var refusal Refusal
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &unfit):
			return unfit.Err
		case errors.As(err, &refusal):
			w.Logf("job %s is refused: %v", j, err)
			if !sleep(ctx, w.Beat/16) { // another may take it
				return nil
			}
		case err != nil:
			w.Logf("job %s failed: %v", j, err)
			failed++
			if !sleep(ctx, time.Second<<min(failed-1, 6)) {
				return nil
			}
		default:
			failed = 0
		}
	}
}

// sleep reports whether ctx still runs afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// hellos says again and again that the worker is there.
func (w *Worker) hellos(ctx context.Context) {
	for {
		if !w.hangs() {
			_ = w.Link.Send(ctx, Event{Kind: Hello, About: &w.About}) // the next one may come through
		}
		if !sleep(ctx, w.Beat) {
			return
		}
	}
}

// one does a job, and says so.
func (w *Worker) one(ctx context.Context, j Job) error {
	name := j.Name()
	if err := w.Link.Send(ctx, Event{Kind: Begun, Job: name}); err != nil {
		return err
	}
	began := time.Now()
	at, stop := context.WithCancel(ctx)
	defer stop()
	go w.beats(at, name, stop)
	w.since.Store(began.UnixNano())
	payload, err := w.Do(at, j)
	w.since.Store(0)
	if err == nil {
		err = w.deliver(at, payload, Event{Kind: Done, Job: name, Bytes: len(payload), Seconds: time.Since(began).Seconds()})
	}
	if at.Err() != nil {
		return ctx.Err() // it is not needed any more
	}
	if err == nil {
		return nil
	}
	stop()
	return errors.Join(err, w.Link.Send(ctx, Event{Kind: Failed, Job: name, Why: shown(err.Error(), 2000)}))
}

// mostDeliveries is how often a result is brought, in some two minutes.
const mostDeliveries = 9

// deliver brings a result, again and again while the trainer is out of reach, for it took long to make.
func (w *Worker) deliver(ctx context.Context, payload []byte, e Event) (err error) {
	for n := range mostDeliveries {
		if n > 0 && !sleep(ctx, time.Second<<min(n-1, 5)) {
			return ctx.Err()
		}
		var b Blob
		if b, err = w.Link.Put(ctx, payload); err != nil {
			continue
		}
		e.Payload = b.Hash
		if err = w.Link.Send(ctx, e); err == nil {
			return nil
		}
	}
	return fmt.Errorf("bringing the result, tried %d times: %w", mostDeliveries, err)
}

// beats says that a job is under way, and stops it when it is not needed.
func (w *Worker) beats(ctx context.Context, name Hash, stop context.CancelFunc) {
	withdrawn := w.Link.Withdrawn(name)
	for {
		select {
		case <-ctx.Done():
			return
		case <-withdrawn:
			stop()
			return
		case <-time.After(w.Beat):
			if !w.hangs() {
				_ = w.Link.Send(ctx, Event{Kind: Beat, Job: name}) // the next one may come through
			}
		}
	}
}

// An Executor does jobs on a worker's machine: it opens a job's setup, takes its weights, and rolls, or computes
// gradients.
type Executor struct {
	Blobs Blobs
	About About
	// Open opens the run's model; ctx ends with the job under way: it stops the opening, and each roll.
	Open func(ctx context.Context, s Setup) (model.Model, *experiment.Experiment, error)

	setup   Blob // that is open
	weights Blob // that the model has
	model   model.Model
	travels model.Remote
	e       *experiment.Experiment
	ctx     *changing
	unseen  atomic.Bool  // the samples of the job under way are held out
	moved   atomic.Int64 // when the job under way last went on
	ahead   []int        // prompts that jobs to come will probably name

	others    map[trainer.Weights]Blob // that the model's other sets of weights have
	iteration askedIteration           // of the last gradient
}

// Moved is Worker.Moved. Held-out samples report no pass: they count as if they went on.
func (s *Executor) Moved() time.Time {
	if s.unseen.Load() {
		return time.Now()
	}
	return time.Unix(0, s.moved.Load())
}

// Passed is called for every pass of the network (model.Options.Progress).
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
	if j.Gradient != nil {
		return s.gradient(ctx, j)
	}
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
	s.ctx.be(ctx)
	defer s.ctx.be(context.Background())
	if s.model, s.e, err = s.Open(s.ctx, said); err != nil {
		if s.model = nil; ctx.Err() != nil {
			return ctx.Err()
		}
		return Unfit{err}
	}
	var ok bool
	if s.travels, ok = s.model.(model.Remote); !ok {
		return Unfit{errors.New("this version of the program cannot roll the run's samples elsewhere")}
	}
	s.setup, s.weights, s.others, s.iteration = setup, Blob{}, nil, askedIteration{}
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
	s.weights = Blob{} // a failure half-way leaves none
	if err := s.travels.Take(f); err != nil {
		return err
	}
	s.weights = weights
	return nil
}

// roll rolls a job's samples.
func (s *Executor) roll(ctx context.Context, j Job) ([]byte, error) {
	settings, err := j.How.settings(s.e)
	if err != nil {
		return nil, err
	}
	policy := trainer.Policy(s.model)
	s.unseen.Store(j.How.Fixed)
	if j.How.Fixed {
		policy = s.model.Fixed(ctx, settings, j.How.Root)
	} else if err := s.model.Begin(settings, j.How.Root, 1); err != nil {
		return nil, err
	}
	s.ahead = j.Ahead
	samples, err := policy.Roll(trainer.Current, j.All())
	if err != nil {
		return nil, err
	}
	s.moves()
	return develop(s.model, s.e, samples, j, 0)
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
