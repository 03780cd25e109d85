package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Model is a run's model whose rolls, those of evaluations among them, are done by a fleet. All else is the model's
// own: outputs of the network for gradients, checkpoints, files.
//
// Invariant (tests in trainer/run): with any number of workers, and whichever of them fail, a run leaves the bytes
// of one that nobody helps.
type Model struct {
	model.Model
	fleet     *Fleet
	e         *experiment.Experiment
	travels   model.Remote
	ctx       *changing
	progress  func(done, all int)
	measuring func(done, all int)
	setup     Blob
	settings  experiment.Settings // of the iteration under way
	root      rng.Key
	elsewhere int    // passes of the iteration's rolls that others made, less those made here in vain
	made      []made // jobs of the iteration under way
	recent    []Hash // jobs of the iteration under way, whose results are kept until the next one
	weights   []Blob //, the oldest first
	impure    bool   // samples ask programs or servers
	ahead     ahead
	mu        sync.Mutex
	published map[trainer.Weights]Blob
	packed    map[trainer.Weights][]byte // that gradients and rolls need
	next      func() []int               // prompts that rolls to come will name; nil: nobody knows
	read      map[Hash]result            // of jobs whose results are not learned from yet
	gradients *gradients                 // nil: gradients are computed here
	unused    *Batch                     // of workers of gradients that the run has none for; nil: it has some, or no such fleet
	recaller  model.Recaller             // nil: the model's outputs during a roll are not known
	recalled  recalled
	doubts    map[trainer.Key]bool // samples at which the network answers otherwise than their worker said
	anew      bool                 // the iteration is to begin anew, with the kept results of its jobs
}

// Open opens a run's model, and shares its rolls out, and its gradients among the workers of another fleet; nil: of
// none. plan returns the samples of iterations to come.
func (f *Fleet) Open(s Setup, e *experiment.Experiment, o model.Options, gradients *Fleet, plan planner, open func(o model.Options) (model.Model, error)) (model.Model, error) {
	m := &Model{fleet: f, e: e, ctx: newChanging(), progress: o.Progress, measuring: o.Measuring, next: o.Ahead, published: map[trainer.Weights]Blob{}, packed: map[trainer.Weights][]byte{}, read: map[Hash]result{}, recalled: recalled{}, doubts: map[trainer.Key]bool{}}
	m.ahead = ahead{plan: plan, open: map[int]*Batch{}}
	o.Context, o.Progress, o.Measuring = m.ctx, nil, nil
	own, err := open(o)
	if err != nil {
		return nil, err
	}
	m.Model = own
	if err := m.prepare(s); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	if err := m.shareGradients(s, gradients); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	if d, ok := own.(trainer.Developer); ok {
		return developing{m, d}, nil
	}
	return m, nil
}

// Own is the model that computes here.
func (m *Model) Own() model.Model { return m.Model }

// developing is a Model of pictures whose rewards have gradients.
type developing struct {
	*Model
	trainer.Developer
}

func (m *Model) prepare(s Setup) error {
	var ok bool
	if m.travels, ok = m.Model.(model.Remote); !ok || m.e.AllOffline() {
		return errors.New("nothing of this experiment can be rolled by workers\nhint: train it without --listen and --workers")
	}
	m.recaller, _ = m.Model.(model.Recaller)
	if p := m.e.Episode; p != nil {
		m.impure = p.Exec != nil || len(p.Served) > 0
	}
	data, err := s.pack()
	if err != nil {
		return err
	}
	if m.setup, err = m.fleet.Hub.Put(context.Background(), data); err != nil {
		return fmt.Errorf("fleet: publishing the run's setup: %w", err)
	}
	return nil
}

// Begin is model.Model's. The kept results of the iteration before are not needed any more.
func (m *Model) Begin(settings experiment.Settings, root rng.Key, scale float64) error {
	m.settings, m.root, m.elsewhere, m.made = settings, root, 0, nil
	if m.gradients != nil {
		m.gradients.forget()
	}
	clear(m.recalled)
	clear(m.doubts)
	m.dropAhead(settings.First+settings.Iteration, root)
	if anew := m.anew; anew {
		m.anew = false
	} else if err := m.forget(); err != nil {
		return err
	}
	return m.Model.Begin(settings, root, scale)
}

func (m *Model) forget() error {
	slices.SortFunc(m.recent, func(a, b Hash) int { return slices.Compare(a[:], b[:]) })
	names := slices.Compact(m.recent) // an iteration that began anew had some twice
	m.recent = nil
	m.mu.Lock()
	for _, name := range names {
		delete(m.read, name)
	}
	m.mu.Unlock()
	if err := m.fleet.Forget(context.Background(), names); err != nil {
		return fmt.Errorf("fleet: forgetting the results of the iteration before: %w", err)
	}
	return nil
}

// Roll is trainer.Policy's. Samples that a stage takes from files are taken here.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	return m.RollEach(w, keys, nil)
}

// RollEach is model.Streamer's: all jobs are offered at once, and each is called when its results come.
func (m *Model) RollEach(w trainer.Weights, keys []trainer.Key, each func(first int, samples []trainer.Sample) error) ([]trainer.Sample, error) {
	how, ok := howOf(m.e, m.settings, m.root, false)
	if !ok || m.settings.Rollout.Offline || m.settings.Supervised() {
		all, err := m.Model.Roll(w, keys)
		if err == nil && each != nil {
			err = each(0, all)
		}
		return all, err
	}
	s := share{Model: m, how: how, keys: keys, told: m.progress, each: each, recalls: m.recaller != nil && w == trainer.Current, roll: func(_ context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
		return m.Model.Roll(w, keys)
	}}
	if err := m.lookAhead(context.Background()); err != nil {
		return nil, err
	}
	before := rollsOf(m.Model.Passes())
	samples, err := s.do(context.Background(), w)
	m.made = append(m.made, s.made...)
	m.elsewhere += s.passes - (rollsOf(m.Model.Passes()) - before)
	return samples, err
}

// Attempt implements trainer.Thrifty, of a model that computes its gradients here.
func (m *Model) Attempt(f func() error) error {
	if thrifty, ok := m.Model.(trainer.Thrifty); ok && m.gradients == nil {
		return thrifty.Attempt(f)
	}
	return f()
}

// A made job is one of a roll, with its worker.
type made struct {
	Job
	by      string
	payload Hash
	roll    func(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error)
}

// ErrReplaced says that samples were rolled anew, and have to be judged again.
var ErrReplaced = errors.New("workers' samples were rolled here again")

// Check is model.Model's. Where workers' samples fail it, whatever the cause, they are rolled here, compared, and put
// in the place of theirs.
func (m *Model) Check(o trainer.Objective, samples []trainer.Sample) (*ledger.Check, error) {
	c, err := m.Model.Check(o, samples)
	if err == nil || !slices.ContainsFunc(m.made, func(j made) bool { return j.by != Here }) {
		return c, err
	}
	m.fleet.Tell("warning: fleet: workers' samples are rolled here again and compared: %v", err)
	places := map[trainer.Key]int{}
	for i, s := range samples {
		places[s.Key] = i
	}
	before := rollsOf(m.Model.Passes())
	defer func() { m.elsewhere -= rollsOf(m.Model.Passes()) - before }()
	for i, j := range m.made {
		if j.by == Here {
			continue
		}
		s := share{Model: m, how: j.How, roll: j.roll}
		payload, err := s.here(context.Background(), j.Job)
		if err != nil {
			return nil, err
		}
		m.made[i].by = Here
		if HashOf(payload) == j.payload {
			continue
		}
		if !m.impure {
			if err := m.fleet.Differs(j.by, j.Job); err != nil {
				return nil, err
			}
		}
		again, err := m.result(j.Job, payload)
		if err != nil {
			return nil, err
		}
		for _, one := range again.Samples {
			if at, known := places[one.Key]; known {
				samples[at] = one
			}
		}
	}
	m.fleet.Flush()
	return nil, ErrReplaced
}

func rollsOf(p *ledger.Passes) int {
	if p == nil {
		return 0
	}
	return p.Rollout
}

// Passes is model.Model's: as if everything had been rolled here, once.
func (m *Model) Passes() *ledger.Passes {
	own := m.Model.Passes()
	if own == nil {
		return nil
	}
	return own.Plus(&ledger.Passes{Rollout: m.elsewhere})
}

// Fixed implements model.Model.
func (m *Model) Fixed(ctx context.Context, settings experiment.Settings, root rng.Key) trainer.Policy {
	own := m.Model.Fixed(ctx, settings, root)
	how, ok := howOf(m.e, settings, root, true)
	if !ok {
		return own
	}
	return fixed{own, m, ctx, settings, how}
}

// fixed is a policy of evaluations.
type fixed struct {
	trainer.Policy
	m        *Model
	ctx      context.Context
	settings experiment.Settings
	how      How
}

func (p fixed) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	s := share{Model: p.m, how: p.how, keys: keys, told: p.m.measuring, roll: func(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
		return p.m.Model.Fixed(ctx, p.settings, p.how.Root).Roll(w, keys)
	}}
	return s.do(p.ctx, w)
}

// mostWeights is how many versions stay where workers can fetch them, beside those that samples lag behind.
const mostWeights = 4

// publish makes a set of weights known, and names it; false where it cannot travel. Until weights change it is made
// ready once.
func (m *Model) publish(ctx context.Context, w trainer.Weights) (b Blob, ok bool, err error) {
	if b, ok := m.published[w]; ok && slices.Contains(m.weights, b) {
		return b, true, nil
	}
	data, ok, err := m.pack(w)
	if err != nil || !ok {
		return b, false, err
	}
	b = BlobOf(data)
	m.published[w] = b
	if slices.Contains(m.weights, b) {
		return b, true, nil
	}
	if _, err := m.fleet.Hub.Put(ctx, data); err != nil {
		return b, false, fmt.Errorf("fleet: publishing the weights: %w", err)
	}
	if m.weights = append(m.weights, b); len(m.weights) > mostWeights+m.e.Run.Lag {
		err = m.fleet.Hub.Drop(ctx, m.weights[0].Hash)
		m.weights = m.weights[1:]
	}
	return b, true, err
}

// pack makes bytes of a set of weights; false: they cannot travel. Where gradients travel, too, which bounds their
// size, that is done once.
func (m *Model) pack(w trainer.Weights) (data []byte, ok bool, err error) {
	if data = m.packed[w]; data != nil {
		return data, true, nil
	}
	tensors, err := m.travels.Values(w)
	if err != nil {
		return nil, false, nil //nolint:nilerr // it is asked here
	}
	if data, err = safetensors.Bytes(tensors, nil); err == nil && m.gradients != nil {
		m.packed[w] = data
	}
	return data, err == nil, err
}

// changed lets published weights be old.
func (m *Model) changed() {
	clear(m.published)
	clear(m.packed)
}

// Params are the model's own. A change of them makes the published ones old.
func (m *Model) Params() trainer.Params {
	all := published{m.Model.Params(), m}
	if m.gradients == nil {
		return all
	}
	return sharedParams{all, m.gradients}
}

// published are weights that report their changes.
type published struct {
	trainer.Params
	m *Model
}

// Norm comes before Move: an update with false outputs is dropped.
func (p published) Norm() (float64, error) {
	if err := p.m.settle(context.Background()); err != nil {
		return 0, err
	}
	return p.Params.Norm()
}

func (p published) Move(scale, rate float64) {
	p.m.changed()
	clear(p.m.recalled)
	p.Params.Move(scale, rate)
}

func (p published) Follow(w trainer.Weights, decay float64) {
	p.m.changed()
	p.Params.Follow(w, decay)
}

// Load is model.Model's, and Forget.
func (m *Model) Load(f *safetensors.File) error {
	m.changed()
	clear(m.recalled)
	if m.gradients != nil {
		m.gradients.forget()
	}
	return m.Model.Load(f)
}

func (m *Model) Forget(w trainer.Weights) error {
	m.changed()
	return m.Model.Forget(w)
}

// Close implements model.Model.
func (m *Model) Close() error {
	m.dropAhead(m.e.Run.Iterations, m.ahead.root)
	m.gradients.close()
	if m.unused != nil {
		m.unused.Drop()
	}
	return errors.Join(m.forget(), m.Model.Close())
}

// changing is a context that a model is opened with, and that stands for another one in each roll: so a single
// roll can be stopped.
type changing struct {
	mu  sync.Mutex
	now context.Context
}

func newChanging() *changing { return &changing{now: context.Background()} }

// be stands for ctx from now on.
func (c *changing) be(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = ctx
}

func (c *changing) is() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *changing) Deadline() (time.Time, bool) { return c.is().Deadline() }
func (c *changing) Done() <-chan struct{}       { return c.is().Done() }
func (c *changing) Err() error                  { return c.is().Err() }
func (c *changing) Value(key any) any           { return c.is().Value(key) }
