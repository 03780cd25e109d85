package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Model is a run's model whose rolls, those of evaluations among them, are done by a fleet. All else is the model's
// own: what the network is asked for its gradients, checkpoints, what is written.
//
// Invariant (tests in trainer/run): with any number of workers, and whichever of them fail, a run leaves the bytes
// of one that nobody helps.
type Model struct {
	model.Model
	fleet     *Fleet
	e         *experiment.Experiment
	travels   model.Travelling
	ctx       *changing
	progress  func(done, all int)
	setup     Hash
	turn      experiment.Turn // of the iteration under way
	root      rng.Key
	elsewhere int    // passes of the iteration's rolls that others made, less those made here in vain
	recent    []Hash // jobs of the iteration under way, whose results are kept until the next one
	weights   []Hash // blobs, the oldest first
	impure    bool   // samples ask programs or servers
	ahead     ahead
	mu        sync.Mutex
	read      map[Hash]result // of jobs whose results are not learned from yet
}

// Open opens a run's model, and shares its rolls out. plan says what iterations to come will ask for.
func (f *Fleet) Open(s Setup, e *experiment.Experiment, o model.Options, plan planner, open func(o model.Options) (model.Model, error)) (model.Model, error) {
	m := &Model{fleet: f, e: e, ctx: newChanging(), progress: o.Progress, read: map[Hash]result{}}
	m.ahead = ahead{plan: plan, open: map[int]*Batch{}}
	o.Context, o.Progress = m.ctx, nil
	own, err := open(o)
	if err != nil {
		return nil, err
	}
	m.Model = own
	if err := m.prepare(s); err != nil {
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
	if m.travels, ok = m.Model.(model.Travelling); !ok || m.e.Rollout.Offline {
		return errors.New("nothing of this experiment can be rolled by workers\nhint: train it without --listen and --workers")
	}
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

// Begin is model.Model's. What is kept of the iteration before is not needed any more.
func (m *Model) Begin(turn experiment.Turn, root rng.Key, scale float64) error {
	m.turn, m.root, m.elsewhere = turn, root, 0
	m.dropAhead(turn.First+turn.Iteration, root)
	if err := m.forget(); err != nil {
		return err
	}
	return m.Model.Begin(turn, root, scale)
}

func (m *Model) forget() error {
	names := m.recent
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

// Roll is trainer.Policy's. What a stage does not roll, but takes from files, is taken here.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	how, ok := howOf(m.e, m.turn, m.root, false)
	if !ok || m.turn.Rollout.Offline || m.turn.Taught() {
		return m.Model.Roll(w, keys)
	}
	s := share{Model: m, how: how, keys: keys, told: m.progress, roll: func(_ context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
		return m.Model.Roll(w, keys)
	}}
	if err := m.lookAhead(context.Background()); err != nil {
		return nil, err
	}
	before := rollsOf(m.Model.Passes())
	samples, err := s.do(context.Background(), w)
	m.elsewhere += s.passes - (rollsOf(m.Model.Passes()) - before)
	return samples, err
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

// Portion is model.Model's.
func (m *Model) Portion() int { return m.Model.Portion() * (1 + m.fleet.Workers()) }

// Fixed is model.Model's.
func (m *Model) Fixed(ctx context.Context, turn experiment.Turn, root rng.Key) trainer.Policy {
	own := m.Model.Fixed(ctx, turn, root)
	how, ok := howOf(m.e, turn, root, true)
	if !ok {
		return own
	}
	return fixed{own, m, ctx, turn, how}
}

// fixed is a policy of evaluations.
type fixed struct {
	trainer.Policy
	m    *Model
	ctx  context.Context
	turn experiment.Turn
	how  How
}

func (p fixed) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	s := share{Model: p.m, how: p.how, keys: keys, roll: func(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error) {
		return p.m.Model.Fixed(ctx, p.turn, p.how.Root).Roll(w, keys)
	}}
	return s.do(p.ctx, w)
}

// mostWeights is how many versions stay where workers can fetch them, beside those that samples lag behind.
const mostWeights = 4

// publish makes a set of weights known, and names it; false where it cannot travel.
func (m *Model) publish(ctx context.Context, w trainer.Weights) (name Hash, ok bool, err error) {
	tensors, err := m.travels.Values(w)
	if err != nil {
		return name, false, nil //nolint:nilerr // it is rolled here
	}
	data, err := safetensors.Bytes(tensors, nil)
	if err != nil {
		return name, false, err
	}
	name = HashOf(data)
	for _, known := range m.weights {
		if known == name {
			return name, true, nil
		}
	}
	if _, err := m.fleet.Hub.Put(ctx, data); err != nil {
		return name, false, fmt.Errorf("fleet: publishing the weights: %w", err)
	}
	if m.weights = append(m.weights, name); len(m.weights) > mostWeights+m.e.Run.Lag {
		err = m.fleet.Hub.Drop(ctx, m.weights[0])
		m.weights = m.weights[1:]
	}
	return name, true, err
}

// Close is model.Model's.
func (m *Model) Close() error {
	m.dropAhead(m.e.Run.Iterations, m.ahead.root)
	return errors.Join(m.forget(), m.Model.Close())
}

// share is a roll that is shared out.
type share struct {
	*Model
	how    How
	keys   []trainer.Key
	roll   func(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error)
	told   func(done, all int)
	passes int // of all jobs
}

// do has the jobs done, and returns their samples in their order.
func (s *share) do(ctx context.Context, w trainer.Weights) ([]trainer.Sample, error) {
	weights, ok, err := s.publish(ctx, w)
	if err != nil {
		return nil, err
	}
	if !ok {
		return s.roll(ctx, s.keys)
	}
	jobs := s.jobsOf(weights, s.how, s.keys)
	told := func(done int) {
		if s.told != nil {
			s.told(done, len(jobs))
		}
	}
	payloads, err := s.fleet.Do(ctx, Work{Jobs: jobs, Here: s.here, Check: s.check, Told: told, Impure: s.impure, Urgent: s.how.Fixed})
	if err != nil {
		return nil, err
	}
	var all []trainer.Sample
	for i, j := range jobs {
		r, err := s.result(j, payloads[i])
		if err != nil {
			return nil, err
		}
		all = append(all, r.samples...)
		s.passes += rollsOf(r.passes)
		s.recent = append(s.recent, j.Name())
	}
	return all, nil
}

// jobsOf shares samples out. Groups are jobs of their own, but those of evaluations, which are small.
func (m *Model) jobsOf(weights Hash, how How, keys []trainer.Key) (jobs []Job) {
	least := 1
	if how.Fixed {
		least = m.e.Rollout.Group
	}
	for _, part := range Split(keys, least) {
		jobs = append(jobs, Job{Setup: m.setup, Weights: weights, How: how, Keys: runsOf(part)})
	}
	return jobs
}

// check reads what came of a job.
func (m *Model) check(j Job, payload []byte) error {
	samples, passes, err := Unpack(payload, j.All(), speaking(m.Model))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read[j.Name()] = result{payload, samples, passes}
	return nil
}

// result is what came of a job, which may be another than what was read of it before: it was done here, or once more
// since its worker was dismissed.
func (m *Model) result(j Job, payload []byte) (r result, err error) {
	m.mu.Lock()
	r, known := m.read[j.Name()]
	delete(m.read, j.Name())
	m.mu.Unlock()
	if !known || !bytes.Equal(r.payload, payload) {
		r.samples, r.passes, err = Unpack(payload, j.All(), speaking(m.Model))
	}
	return r, err
}

// result is what came of a job.
type result struct {
	payload []byte
	samples []trainer.Sample
	passes  *ledger.Passes
}

// here does a job with the trainer's own model.
func (s *share) here(ctx context.Context, j Job) (payload []byte, err error) {
	defer kernels.Recover(&err)
	s.ctx.be(ctx)
	defer s.ctx.be(context.Background())
	before := rollsOf(s.Model.Model.Passes())
	samples, err := s.roll(ctx, j.All())
	if err != nil {
		return nil, err
	}
	return develop(s.Model.Model, samples, j, before)
}

// speaking is a model of conversations; nil: its samples are none.
func speaking(m model.Model) model.Speaking {
	s, _ := m.(model.Speaking)
	return s
}

// develop makes a result of samples. The network had made so many passes before.
func develop(m model.Model, samples []trainer.Sample, j Job, before int) ([]byte, error) {
	items, err := m.Items(samples)
	if err != nil {
		return nil, err
	}
	for i := range samples {
		samples[i].Item.Image = items[i].Image
	}
	var passes *ledger.Passes
	if now := m.Passes(); now != nil && !j.How.Fixed {
		passes = &ledger.Passes{Rollout: now.Rollout - before}
	}
	return Pack(samples, passes, speaking(m))
}
