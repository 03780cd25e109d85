package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// One roll of a run, shared out as jobs: its jobs, the reading of their results, and the trainer's own.

// share is a roll that is shared out.
type share struct {
	*Model
	how    How
	keys   []trainer.Key
	roll   func(ctx context.Context, keys []trainer.Key) ([]trainer.Sample, error)
	told   func(done, all int)
	each   func(first int, samples []trainer.Sample) error // model.Streamer's; nil: not called
	passes int                                             // of all jobs
	// recalls has outputs come with samples: the weights that roll are those that are asked next.
	recalls bool
	made    []made
}

// do has the jobs done, and returns their samples in their order.
func (s *share) do(ctx context.Context, w trainer.Weights) ([]trainer.Sample, error) {
	weights, ok, err := s.publish(ctx, w)
	if err != nil {
		return nil, err
	}
	if !ok {
		all, err := s.roll(ctx, s.keys)
		if err == nil && s.each != nil {
			err = s.each(0, all)
		}
		return all, err
	}
	jobs := s.jobsOf(weights, s.how, s.keys)
	for i := range jobs {
		jobs[i].Recalls = s.recalls
	}
	told := func(done int) {
		if s.told != nil {
			s.told(done, len(jobs))
		}
	}
	payloads, by, err := s.fleet.DoBy(ctx, Work{Jobs: jobs, Each: s.passing(jobs), Here: s.here, Check: s.check, Most: s.most, Progress: told, Impure: s.impure, Urgent: s.how.Fixed})
	if err != nil {
		return nil, err
	}
	var all []trainer.Sample
	for i, j := range jobs {
		r, err := s.result(j, payloads[i])
		if err != nil {
			return nil, err
		}
		all = append(all, r.Samples...)
		s.passes += rollsOf(r.Passes)
		s.recent = append(s.recent, j.Name())
		s.made = append(s.made, made{j, by[i].Worker, by[i].Payload, s.roll})
	}
	return all, nil
}

// passing tells of the samples of results; nil: not called.
func (s *share) passing(jobs []Job) func(i int, payload []byte) error {
	if s.each == nil {
		return nil
	}
	return func(i int, payload []byte) error {
		first := 0
		for _, j := range jobs[:i] {
			first += j.Samples()
		}
		r, err := s.seen(jobs[i], payload)
		if err != nil {
			return err
		}
		return s.each(first, r.Samples)
	}
}

// jobsOf shares samples out. Groups are jobs of their own, but those of evaluations, which are small.
func (m *Model) jobsOf(weights Blob, how How, keys []trainer.Key) (jobs []Job) {
	least := 1
	if how.Fixed {
		least = m.e.Rollout.Group
	}
	list, place := m.promptsOf(keys)
	for _, part := range Split(keys, least) {
		from := place[part[0].Prompt]
		jobs = append(jobs, Job{Setup: m.setup, Weights: weights, How: how, Keys: runsOf(part), Ahead: list[from:min(from+mostAhead, len(list))]})
	}
	return jobs
}

// mostAhead is how many prompts a job names that are to come, its own among them: a CPU encodes as many in minutes.
const mostAhead = 32

// promptsOf are the prompts of keys and of the rolls behind them, each once, and where each stands.
func (m *Model) promptsOf(keys []trainer.Key) (list []int, place map[int]int) {
	place = map[int]int{}
	add := func(prompt int) {
		if _, known := place[prompt]; !known {
			place[prompt] = len(list)
			list = append(list, prompt)
		}
	}
	for _, k := range keys {
		add(k.Prompt)
	}
	if m.next != nil {
		for _, n := range m.next() {
			add(n)
		}
	}
	return list, place
}

// rolled is how a job's samples are rolled.
func (m *Model) rolled(j Job) (model.Rolled, error) {
	settings, err := j.How.settings(m.e)
	return model.Rolled{Settings: settings, Root: j.How.Root, Fixed: j.How.Fixed}, err
}

// mostPasses bounds a sample's passes through the network.
const mostPasses = 1 << 16

// most bounds the bytes of a job's result.
func (m *Model) most(j Job) int64 {
	r, err := m.rolled(j)
	if err != nil {
		return 0
	}
	return m.travels.Most(r, j.All())
}

// check reads a job's result, and compares it with the job.
func (m *Model) check(j Job, payload []byte) error {
	got, err := m.unpack(j, payload)
	if err != nil {
		return err
	}
	r, err := m.rolled(j)
	samples, passes := got.Samples, got.Passes
	if err == nil {
		err = m.travels.Fits(r, samples)
	}
	if err == nil && passes != nil && (*passes != ledger.Passes{Rollout: passes.Rollout} || passes.Rollout < 0 || passes.Rollout > mostPasses*len(samples)) {
		err = fmt.Errorf("%+v passes of the network for %d samples", *passes, len(samples))
	}
	if err != nil {
		return fmt.Errorf("a worker's result: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read[j.Name()] = result{payload, got}
	return nil
}

// unpack reads a job's result. Means that did not travel follow from outputs.
func (m *Model) unpack(j Job, payload []byte) (got Result, err error) {
	if got, err = Unpack(payload, j.All(), episodeCodec(m.Model)); err != nil || got.Outputs == nil {
		return got, err
	}
	if m.recaller == nil || !j.Recalls {
		return got, errors.New("a worker's result has outputs that nobody asked for")
	}
	r, err := m.rolled(j)
	if err != nil {
		return got, err
	}
	means, err := m.recaller.Means(r, got.Samples, got.Outputs)
	if err != nil {
		return got, fmt.Errorf("a worker's result: %w", err)
	}
	for i := range got.Samples {
		if got.Outputs[i] != nil {
			if len(means[i]) != len(got.Outputs[i]) {
				return got, errors.New("a worker's result has outputs from which no means follow")
			}
			got.Samples[i].Decisions.Mean = means[i]
		}
	}
	return got, nil
}

// result is a job's result, which may be another than the one read before: it was done here, or once more since its
// worker was dismissed.
func (m *Model) result(j Job, payload []byte) (r result, err error) {
	r, err = m.seen(j, payload)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.read, j.Name())
	if err == nil && j.Recalls {
		m.remember(r.Result)
	}
	return r, err
}

// seen is result, of a job whose samples will be asked for again.
func (m *Model) seen(j Job, payload []byte) (r result, err error) {
	m.mu.Lock()
	r, known := m.read[j.Name()]
	m.mu.Unlock()
	if !known || !bytes.Equal(r.payload, payload) {
		r.Result, err = m.unpack(j, payload)
	}
	return r, err
}

// result is a job's result, with its bytes.
type result struct {
	payload []byte
	Result
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
	return develop(s.Model.Model, s.e, samples, j, before)
}

// episodeCodec is a model of conversations; nil: its samples have no conversations.
func episodeCodec(m model.Model) model.EpisodeCodec {
	s, _ := m.(model.EpisodeCodec)
	return s
}

// develop makes a result of samples. The network's number of passes before is given.
func develop(m model.Model, e *experiment.Experiment, samples []trainer.Sample, j Job, before int) ([]byte, error) {
	items, err := m.Items(samples)
	if err != nil {
		return nil, err
	}
	for i := range samples {
		samples[i].Item.Image = items[i].Image
	}
	r := Result{Samples: samples}
	if now := m.Passes(); now != nil && !e.Run.Parted() && !j.How.Fixed {
		r.Passes = &ledger.Passes{Rollout: now.Rollout - before}
	}
	if known, ok := m.(model.Recaller); ok && j.Recalls {
		if err := r.recall(known, e, j); err != nil {
			return nil, err
		}
	}
	return Pack(r, episodeCodec(m))
}

// Card: run.lag = k. Iteration i is rolled by the weights of iteration i - k, so that when iteration i begins, the
// samples of i + k can be rolled by its weights, while i to i + k - 1 are gathered and learned from. Jobs are offered
// in the order of their iterations. Nothing that is under way is saved: a resumed run has the lagged weights in its
// checkpoint, and offers the same jobs.
//
// Invariant (tests in trainer/run): with any number of workers, whichever fail, and after any kill of the trainer, a
// run leaves the bytes of one that nobody helps.

// Planned are the samples of an iteration to come.
type Planned struct {
	Settings experiment.Settings
	Root     rng.Key
	Keys     []trainer.Key // none: nothing is rolled
}

// planner returns the samples of an iteration.
type planner func(iteration int) (Planned, error)

// ahead are the iterations whose samples are asked for.
type ahead struct {
	plan planner
	open map[int]*Batch
	root rng.Key // that their draws follow from
}

// lookAhead offers the samples of the iteration under way, and of those whose weights are known.
func (m *Model) lookAhead(ctx context.Context) error {
	now, lag := m.settings.First+m.settings.Iteration, m.e.Run.Lag
	if lag == 0 || m.ahead.plan == nil {
		return nil
	}
	for d := range lag + 1 {
		if m.ahead.open[now+d] != nil || now+d >= m.e.Run.Iterations {
			continue
		}
		b, err := m.offerAhead(ctx, now+d, trainer.Lagged+trainer.Weights(d))
		if err != nil {
			return err
		}
		if b != nil {
			m.ahead.open[now+d] = b
		}
	}
	return nil
}

// offerAhead offers an iteration's samples; nil: they cannot travel, or the iteration has none.
func (m *Model) offerAhead(ctx context.Context, iteration int, w trainer.Weights) (*Batch, error) {
	p, err := m.ahead.plan(iteration)
	if err != nil || len(p.Keys) == 0 {
		return nil, err
	}
	how, ok := howOf(m.e, p.Settings, p.Root, false)
	if !ok {
		return nil, nil
	}
	weights, ok, err := m.publish(ctx, w)
	if err != nil || !ok {
		return nil, err
	}
	// Nobody waits for this batch: the iteration's own batch has the same jobs.
	return m.fleet.Begin(ctx, Work{Jobs: m.jobsOf(weights, how, p.Keys), Check: m.check, Most: m.most, Impure: m.impure,
		Here: func(context.Context, Job) ([]byte, error) { return nil, errors.New("fleet: nobody works ahead here") }})
}

// dropAhead drops the iterations before one, and all where draws follow from another key.
func (m *Model) dropAhead(before int, root rng.Key) {
	for i, b := range m.ahead.open {
		if i < before || root != m.ahead.root {
			b.Drop()
			delete(m.ahead.open, i)
		}
	}
	m.ahead.root = root
}
