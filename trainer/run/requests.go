package run

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/judges"
)

// Rewards outside the program (servers, programs, models behind a server) take time and none of the device. They
// are asked about a group as soon as it is whole, each from a goroutine of its own, while other groups are still
// rolled. How many calls a reward has under way is its policy's: [[reward]] at_once.
//
// So are rewards with networks while workers compute them (fleet.go). Those that compute here
// wait until everything is rolled, since the device is busy until then. Of several devices each judges some groups.
//
// Invariant (tests): files have the bytes of a run where everything is rolled in one piece and judged afterwards.

// requests are those to rewards outside about the groups of a roll, each named by the place of its first sample.
type requests struct {
	ctx     context.Context
	stop    func()
	items   []rewards.Item // of the samples that are rolled, in their order
	calls   sync.WaitGroup
	answers map[request]chan answer
	waits   func(reward string) // is called each minute without an answer; nil: nothing is
}

// request is one about a group to a reward.
type request struct {
	reward string
	first  int
}

// answer is a reward's, or its failure.
type answer struct {
	results []rewards.Result
	failed  error // of the device, where the network of a worker was left to this process
}

// quiet is the time without an answer after which the run says that it waits.
const quiet = time.Minute

func newRequests(ctx context.Context) *requests {
	s := &requests{answers: map[request]chan answer{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

// close cancels the requests that are left, and waits for their ends.
func (s *requests) close() {
	if s != nil {
		s.stop()
		s.calls.Wait()
	}
}

// send asks a reward outside about groups, without those that it was asked about before.
func (s *requests) send(r *reward, item func(i int) rewards.Item, groups [][]int) {
	if !r.elsewhere() {
		return
	}
	for _, ask := range s.asking(item, r.name, groups) {
		s.calls.Go(func() { ask(r) })
	}
}

// spread asks a network on all devices of the run, each about some groups. The answers are to be taken before another
// network is asked.
func (s *requests) spread(r *reward, item func(i int) rewards.Item, groups [][]int) {
	if len(r.copies) == 0 || r.there != nil {
		return
	}
	all := s.asking(item, r.name, groups)
	for d, judge := range append([]judges.Opened{r.Opened}, r.copies...) {
		s.calls.Go(func() {
			for i := d; i < len(all); i += len(r.copies) + 1 {
				all[i](judge)
			}
		})
	}
}

// asking are calls that ask a judge about groups, without those that it was asked about before.
func (s *requests) asking(item func(i int) rewards.Item, of string, groups [][]int) (all []func(judge rewards.Judge)) {
	for _, g := range groups {
		q := request{of, g[0]}
		if s.answers[q] != nil {
			continue
		}
		reply := make(chan answer, 1)
		s.answers[q] = reply
		items := itemsOf(item, g)
		all = append(all, func(judge rewards.Judge) {
			var got answer
			defer func() { reply <- got }()
			defer kernels.Recover(&got.failed)
			got.results = judge.Judge(s.ctx, items)
		})
	}
	return all
}

// forget drops the requests about the samples of some places.
func (s *requests) forget(from, to int) {
	maps.DeleteFunc(s.answers, func(q request, _ chan answer) bool { return q.first >= from && q.first < to })
}

// answer is a reward's results for a group; without a request it is asked now. An answer is taken once. A device's
// failure ends the run from here: in the goroutine of the request it would end the program.
func (s *requests) answer(r *reward, item func(i int) rewards.Item, g []int) []rewards.Result {
	q := request{r.name, g[0]}
	reply := s.answers[q]
	if reply == nil {
		return r.Judge(s.ctx, itemsOf(item, g))
	}
	delete(s.answers, q)
	for {
		select {
		case got := <-reply:
			if got.failed != nil {
				panic(got.failed)
			}
			return got.results
		case <-time.After(quiet):
			if s.waits != nil && r.elsewhere() {
				s.waits(r.name)
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
