package run

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// rollout makes and scores the samples of one iteration: it is the policy that the trainer rolls, and its score. Its
// findings go into the iteration's line.
type rollout struct {
	trainer.Policy
	iteration
	scorer
	device   *sync.Mutex
	clock    *clock
	progress *progress
	waiting  func(reward string)
	checks   func(samples []trainer.Sample) (*ledger.Check, string, error) // nil: none is due
	twice    bool                                                          // rewards are asked again, for the diagnosis

	sent      *requests // to rewards outside, during the roll; nil: none
	scored    *scores
	check     *ledger.Check // before the samples are learned from
	lacking   string        // why too few samples have a score; "": enough have
	last      string        // why the iteration is to be the last; "": it is not
	deviation *float64      // of a total, where rewards were asked twice
}

// scorer makes totals of training samples.
type scorer struct {
	model   model.Model
	rewards *rewardSet
	train   []prompts.Prompt
}

func (l *loop) scorer() scorer { return scorer{l.model, &l.rewards, l.train} }

func (l *loop) rollout(it iteration) *rollout {
	r := &rollout{Policy: l.model, iteration: it, scorer: l.scorer(), device: &l.device, clock: &l.clock, progress: &l.progress, waiting: l.waiting, twice: l.Twice && it.number == 0}
	if it.number == it.settings.First && (l.Run.Lag == 0 || it.number == 0) { // by the weights that rolled
		r.checks = func(samples []trainer.Sample) (*ledger.Check, string, error) { return l.checkPolicy(it, samples) }
	}
	return r
}

// waiting logs that a reward has no answer yet, with workers' reports meanwhile.
func (l *loop) waiting(reward string) {
	l.Logf("iteration %d: waiting for reward %s", l.trainer.Iteration+1, reward)
	if l.fleet != nil {
		l.fleet.Flush()
	}
}

// Attempt implements trainer.Thrifty, of a model that does.
func (r *rollout) Attempt(f func() error) error {
	if thrifty, ok := r.Policy.(trainer.Thrifty); ok {
		return thrifty.Attempt(f)
	}
	return f()
}

// Announce implements trainer.Announcer, of a model that does.
func (r *rollout) Announce(questions func() ([]trainer.Question, error)) error {
	if a, ok := r.Policy.(trainer.Announcer); ok {
		return a.Announce(questions)
	}
	return nil
}

// Roll rolls an iteration's samples. Rewards outside are asked about each group as soon as the model returns it; a
// model that returns no single groups rolls some after another.
func (r *rollout) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	r.sent.close()
	r.sent = nil
	if r.settings.Supervised() || !r.rewards.outside() {
		return r.roll(w, keys)
	}
	r.sent = newRequests(context.Background())
	r.sent.items = make([]rewards.Item, len(keys))
	if m, ok := r.Policy.(model.Streamer); ok {
		*r.progress = progress{}
		return r.timed(func() ([]trainer.Sample, error) {
			return m.RollEach(w, keys, r.request)
		})
	}
	var all []trainer.Sample
	for rest := keys; len(rest) > 0; rest = keys[len(all):] {
		r.progress.next(len(all), wholeGroups(rest, r.model.Portion()), len(keys))
		samples, err := r.roll(w, rest[:wholeGroups(rest, r.model.Portion())])
		if err != nil {
			return nil, err
		}
		if err := r.requestAlone(len(all), samples); err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

func (r *rollout) roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	return r.timed(func() ([]trainer.Sample, error) { return r.Policy.Roll(w, keys) })
}

// timed rolls while nothing else computes on the device.
func (r *rollout) timed(roll func() ([]trainer.Sample, error)) ([]trainer.Sample, error) {
	defer r.clock.part("roll")()
	r.device.Lock() // a reward with a network, which workers left to this process, waits
	defer r.device.Unlock()
	return roll()
}

// requestAlone is request while nothing else computes on the device.
func (r *rollout) requestAlone(first int, samples []trainer.Sample) error {
	defer r.clock.part("score")()
	r.device.Lock()
	defer r.device.Unlock()
	return r.request(first, samples)
}

// request asks rewards outside about samples that were just rolled, from a place on. Requests about other samples in
// these places are dropped.
func (r *rollout) request(first int, samples []trainer.Sample) error {
	items, err := r.model.Items(samples)
	if err != nil {
		return err
	}
	copy(r.sent.items[first:], items)
	r.sent.forget(first, first+len(items))
	list := r.promptsOf(samples)
	groups := withoutLost(items, trainer.Groups(samples))
	for k := range r.rewards.all {
		one := &r.rewards.all[k]
		asked := one.weighted(list, groups)
		for i := range asked {
			asked[i] = slices.Clone(asked[i])
			for k := range asked[i] {
				asked[i][k] += first
			}
		}
		r.sent.send(one, func(i int) rewards.Item { return ofPrompt(r.sent.items[i], list[i-first]) }, asked)
	}
	return nil
}

// progress is that of a roll in portions.
type progress struct {
	before, last  int // passes of the network in finished portions, and in all up to now
	upto, samples int // samples up to the end of this portion, and all; 0: there are no portions
}

// next begins a portion of n samples, behind some, of all.
func (p *progress) next(behind, n, all int) {
	if behind == 0 {
		*p = progress{}
	}
	p.before, p.upto, p.samples = p.last, behind+n, all
}

// of is the progress of the whole roll after some passes of a portion. The passes of the portions to come are an
// estimate.
func (p *progress) of(done, all int) (int, int) {
	if p.upto == 0 {
		return done, all
	}
	p.last = p.before + done
	return p.last, (p.before + all) * p.samples / p.upto
}

// wholeGroups is the number of first keys that are whole groups, with at least that many samples.
func wholeGroups(keys []trainer.Key, least int) int {
	for i := max(1, least); i < len(keys); i++ {
		if keys[i].Prompt != keys[i-1].Prompt {
			return i
		}
	}
	return len(keys)
}

// score is Trainer.Score.
func (r *rollout) score(samples []trainer.Sample) ([]float64, error) {
	defer r.clock.part("score")()
	if r.settings.Supervised() { // answers of a file have no scores
		none := &scores{results: map[string][]rewards.Result{}, total: make([]float64, len(samples))}
		if r.scored == nil {
			r.scored = none
		}
		return none.total, nil
	}
	sent := r.sent
	if r.sent = nil; sent == nil {
		sent = newRequests(context.Background())
	}
	defer sent.close()
	sent.waits = r.waiting
	failures := maps.Clone(r.rewards.failures)
	totals, err := r.judge(samples, sent)
	if replaced(err) { // by samples that were rolled here
		again := newRequests(context.Background())
		defer again.close()
		r.scored, r.rewards.failures = nil, failures
		totals, err = r.judge(samples, again)
	}
	return totals, err
}

// judge makes samples' totals, and checks rewards and policy on the iteration's first ones.
func (r *rollout) judge(samples []trainer.Sample, sent *requests) ([]float64, error) {
	s, items, err := r.totals(r.settings.Experiment, samples, sent)
	if err != nil {
		return nil, err
	}
	for i := range samples {
		samples[i].Item.Image, samples[i].Item.Clip, samples[i].Item.Sources = items[i].Image, items[i].Clip, items[i].Sources
	}
	first := r.scored == nil
	if r.scored = r.scored.with(s); !first {
		return s.total, nil
	}
	if r.lacking, err = r.rewards.tooFew(r.settings.Experiment, r.scored, r.number+1); err != nil {
		return nil, err
	}
	if r.twice && r.deviation == nil {
		if r.deviation, err = r.judgeTwice(samples, s); err != nil {
			return nil, err
		}
	}
	if r.checks != nil {
		if r.check, r.last, err = r.checks(samples); err != nil {
			return nil, err
		}
	}
	return s.total, nil
}

// judgeTwice asks the rewards again about samples that they just judged, and returns the deviation of a total.
func (r *rollout) judgeTwice(samples []trainer.Sample, first *scores) (*float64, error) {
	sent := newRequests(r.rewards.ctx)
	defer sent.close()
	again, _, err := r.totals(r.settings.Experiment, samples, sent)
	if err != nil {
		return nil, err
	}
	squares, n := 0.0, 0.0
	for i, v := range first.total {
		if d := v - again.total[i]; !math.IsNaN(d) {
			squares, n = squares+float64(d*d)/2, n+1 // exact: half of a rounded square
		}
	}
	if n == 0 {
		return nil, nil
	}
	return ledger.Number(math.Sqrt(squares / n)), nil
}

// pass is Trainer.Pass: why nothing is learned from an iteration's samples; "": something is. A reason without
// scores is said, and the ledger holds every one.
func (r *rollout) pass(scores, advantages []float64) string {
	switch {
	case r.last != "":
		return r.last
	case r.lacking != "":
		return r.lacking
	}
	reason := why(r.settings, scores, advantages)
	if reason != allDead {
		return reason
	}
	switch r.settings.Advantage.AllDead {
	case "train":
		return ""
	case "stop":
		r.last = reason
	default:
		r.rewards.say("warning: iteration %d: %s, so no sample is learned from", r.number+1, reason)
	}
	return reason
}

// totals are the scores of training samples with the items that were judged. Some requests were sent before.
func (s scorer) totals(e *experiment.Experiment, samples []trainer.Sample, sent *requests) (*scores, []rewards.Item, error) {
	items := sent.items
	if len(items) == 0 {
		var err error
		if items, err = s.model.Items(samples); err != nil {
			return nil, nil, err
		}
	}
	all, err := s.rewards.score(e, sent, s.promptsOf(samples), items, trainer.Groups(samples))
	if err != nil {
		return nil, nil, err
	}
	s.model.Shape(samples, all.total)
	if e.Episode != nil && e.Episode.Shuffled != nil {
		all.controls.reward(*e.Episode.Shuffled, samples, all.numbers(e.ComparedBy()), all.total)
	}
	return all, items, nil
}

// promptsOf are those of training samples.
func (s scorer) promptsOf(samples []trainer.Sample) []prompts.Prompt {
	list := make([]prompts.Prompt, len(samples))
	for i := range samples {
		list[i] = s.train[samples[i].Key.Prompt]
	}
	return list
}

// Totals is model.Rewards'.
func (l *loop) Totals(samples []trainer.Sample) ([]float64, error) {
	sent := newRequests(context.Background())
	defer sent.close()
	s, _, err := l.scorer().totals(l.current.settings.Experiment, samples, sent)
	if err != nil {
		return nil, err
	}
	return s.total, nil
}

// Slopes is model.Rewards': the trained rewards' sums over pictures and their gradients.
func (l *loop) Slopes(ways []trainer.GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	return l.rewards.gradients(l.current.settings.Experiment, l.train, ways, pictures)
}

// batch is the estimator's input: samples' totals, or the scores of each reward.
func (r *rollout) batch(samples []trainer.Sample, totals []float64) (b advantage.Batch, err error) {
	b.Rewards = [][]float64{totals}
	if r.settings.Advantage.EachReward() {
		if b.Rewards, b.Weights, err = r.settings.Combined(r.scored.compared(totals)); err != nil {
			return b, err
		}
	}
	for _, s := range samples {
		b.Groups = append(b.Groups, s.Key.Prompt)
		b.Prompts = append(b.Prompts, r.train[s.Key.Prompt].Text)
		b.Features = append(b.Features, s.Item.Final)
		b.Lengths = append(b.Lengths, float64(max(1, len(s.Decisions.Step))))
	}
	return b, nil
}
