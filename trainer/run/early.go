package run

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Rewards outside the program (servers, programs, models behind a server) take time and none of the device. They
// are asked about a group as soon as it is whole, each from a goroutine of its own, while other groups are still
// rolled. How many calls a reward has under way is its policy's: [[reward]] at_once.
//
// So are rewards with networks while workers are there who compute them (fleet_rewards.go). Those that compute here
// wait until everything is rolled, since the device is busy until then.
//
// Invariant (tests): what is written has the bytes that it has where everything is rolled in one piece and
// judged afterwards.

// asking is what rewards outside were asked about. The groups of a roll are called by the place of their first
// sample.
type asking struct {
	ctx     context.Context
	stop    func()
	items   []rewards.Item // of the samples that are rolled, in their order
	calls   sync.WaitGroup
	answers map[question]chan reply
	waits   func(reward string) // is called now and then while nothing comes; nil: nobody is
}

// question is a group that a reward is asked about.
type question struct {
	reward string
	first  int
}

// reply is what came of a call.
type reply struct {
	results []rewards.Result
	lost    error // of a network, which a worker left to this process: its device failed
}

// quiet is how long nothing is said while a reward has no answer.
const quiet = time.Minute

// waiting says that a reward has no answer yet, and what workers said meanwhile.
func (t *training) waiting(reward string) {
	t.Say("iteration %d: waiting for reward %s", t.loop.Iteration+1, reward)
	if t.fleet != nil {
		t.fleet.Speak()
	}
}

func newAsking(ctx context.Context) *asking {
	a := &asking{answers: map[question]chan reply{}}
	a.ctx, a.stop = context.WithCancel(ctx)
	return a
}

// close waits for calls that nobody waits for any more, and cuts them short.
func (a *asking) close() {
	if a != nil {
		a.stop()
		a.calls.Wait()
	}
}

// begin asks about some groups, but those that were asked about before.
func (a *asking) begin(r *judged, item func(i int) rewards.Item, groups [][]int) {
	if !r.elsewhere() {
		return
	}
	for _, g := range groups {
		q := question{r.name, g[0]}
		if a.answers[q] != nil {
			continue
		}
		answer := make(chan reply, 1)
		a.answers[q] = answer
		items := itemsOf(item, g)
		a.calls.Go(func() {
			var said reply
			defer func() { answer <- said }()
			defer kernels.Recover(&said.lost)
			said.results = r.Judge(a.ctx, items)
		})
	}
}

// forget forgets what was asked about the samples of some places. Nobody waits for these answers.
func (a *asking) forget(from, to int) {
	maps.DeleteFunc(a.answers, func(q question, _ chan reply) bool { return q.first >= from && q.first < to })
}

// take is what a reward says about a group, which it is asked about now if it was not before. An answer is
// taken once. A device that failed ends the run from here, as any does: where it failed, that would end the program.
func (a *asking) take(r *judged, item func(i int) rewards.Item, g []int) []rewards.Result {
	q := question{r.name, g[0]}
	answer := a.answers[q]
	if answer == nil {
		return r.Judge(a.ctx, itemsOf(item, g))
	}
	delete(a.answers, q)
	for {
		select {
		case said := <-answer:
			if said.lost != nil {
				panic(said.lost)
			}
			return said.results
		case <-time.After(quiet):
			if a.waits != nil {
				a.waits(r.name)
			}
		}
	}
}

func itemsOf(item func(i int) rewards.Item, g []int) []rewards.Item {
	items := make([]rewards.Item, len(g))
	for k, i := range g {
		items[k] = item(i)
	}
	return items
}

// Roll rolls an iteration's samples. Where a reward outside is to be asked, it is asked about each group as the model
// tells of it; a model that tells of none rolls some groups after another.
func (p timed) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	t := p.t
	t.now.asking.close()
	t.now.asking = nil
	if t.now.turn.Taught() || !slices.ContainsFunc(t.panel, func(r judged) bool { return r.elsewhere() }) {
		return p.roll(w, keys)
	}
	a := newAsking(context.Background())
	t.now.asking, a.items = a, make([]rewards.Item, len(keys))
	if m, ok := p.Policy.(model.Telling); ok {
		t.now.rolled = rolled{}
		return p.timing(func() ([]trainer.Sample, error) {
			return m.RollEach(w, keys, func(first int, samples []trainer.Sample) error { return t.askAbout(a, first, samples) })
		})
	}
	var all []trainer.Sample
	for rest := keys; len(rest) > 0; rest = keys[len(all):] {
		t.now.rolled.next(len(all), wholeGroups(rest, t.model.Portion()), len(keys))
		samples, err := p.roll(w, rest[:wholeGroups(rest, t.model.Portion())])
		if err != nil {
			return nil, err
		}
		if err := t.ask(a, len(all), samples); err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// rolled is how far a roll in portions is.
type rolled struct {
	before, last  int // passes of the network in finished portions, and in all up to now
	upto, samples int // samples up to the end of this portion, and all; 0: there are no portions
}

// next begins a portion of n samples, behind some, of all.
func (r *rolled) next(behind, n, all int) {
	if behind == 0 {
		*r = rolled{}
	}
	r.before, r.upto, r.samples = r.last, behind+n, all
}

// of is the progress of the whole roll where a portion has done some of its passes. How many the portions to
// come will take is an estimate.
func (r *rolled) of(done, all int) (int, int) {
	if r.upto == 0 {
		return done, all
	}
	r.last = r.before + done
	return r.last, (r.before + all) * r.samples / r.upto
}

// ask develops samples that were just rolled, which follow n others, and asks rewards outside about them.
func (t *training) ask(a *asking, n int, samples []trainer.Sample) error {
	defer t.part("score")()
	t.device.Lock() // rewards with networks, which workers left to this process, wait
	defer t.device.Unlock()
	return t.askAbout(a, n, samples)
}

// askAbout is ask, by who has the device. Where other samples were in these places, answers about them are of no use.
func (t *training) askAbout(a *asking, n int, samples []trainer.Sample) error {
	items, err := t.model.Items(samples)
	if err != nil {
		return err
	}
	copy(a.items[n:], items)
	a.forget(n, n+len(items))
	list := t.promptsOf(samples)
	groups := judgeable(items, trainer.Groups(samples))
	for k := range t.panel {
		r := &t.panel[k]
		asked := r.asked(list, groups)
		for i := range asked {
			asked[i] = slices.Clone(asked[i])
			for k := range asked[i] {
				asked[i][k] += n
			}
		}
		a.begin(r, func(i int) rewards.Item { return told(a.items[i], list[i-n]) }, asked)
	}
	return nil
}

// wholeGroups is how many of the first keys are whole groups with so many samples at least.
func wholeGroups(keys []trainer.Key, least int) int {
	for i := max(1, least); i < len(keys); i++ {
		if keys[i].Prompt != keys[i-1].Prompt {
			return i
		}
	}
	return len(keys)
}
