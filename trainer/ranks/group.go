package ranks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A Group is the devices that train together.
type Group struct {
	Backends []kernels.Backend // rank 0's first
	Wire     exchange.Wire
	Limit    time.Duration // how long one waits for another
	Shards   int           // of the gradient, at least as many as ranks; 0: ranks are added in order (Policy.Shards)
	Tokens   bool          // ranks share the tokens of every pass (Policy.Meeting), and not points
}

// Open opens the model on every device. open is called for one rank after another, with the options of that
// rank.
func (g Group) Open(o model.Options, open func(o model.Options) (model.Model, error)) (model.Model, error) {
	rolls, failed := context.WithCancel(context.Background())
	m := &Model{states: o.States}
	m.Policy = &Policy{Team: exchange.TeamOf(g.Limit, g.Backends...), Sum: func() error {
		return m.addUp(exchange.Sum{Ranks: g.Backends, Wire: g.Wire, Limit: g.Limit, Shards: g.Shards})
	}}
	m.Policy.Shards, m.Policy.Shard = g.Shards, m.shard
	m.Team.Stop = failed
	if g.Tokens {
		m.Meeting = &exchange.Meeting{Ranks: g.Backends, Wire: g.Wire, Limit: g.Limit, Team: m.Team}
	}
	tell, measure, ahead := together(len(g.Backends), o.Progress), together(len(g.Backends), o.Measuring), shared(len(g.Backends), o)
	for r, be := range g.Backends {
		alike := o
		alike.Backend, alike.Context, alike.Progress, alike.Measuring, alike.Ahead = be, rolls, tell(r), measure(r), ahead(r)
		alike.Rank = r
		if g.Tokens {
			alike.Tokens = &autograd.Tokens{Rank: r, Ranks: len(g.Backends), Meeting: m.Meeting}
			if alike.Progress, alike.Measuring = nil, nil; r == 0 { // all ranks are as far as the first
				alike.Progress, alike.Measuring = o.Progress, o.Measuring
			}
		}
		var member model.Model
		err := m.Team.Alone(r, func() (err error) {
			member, err = open(alike)
			return err
		})
		if err != nil {
			failed()
			return nil, errors.Join(err, m.Close())
		}
		if r == 0 {
			m.Trainable, m.Recorder = member, member
		}
		m.models, m.Members = append(m.models, member), append(m.Members, member)
	}
	if g.Shards > 0 && !g.Tokens {
		m.Runs = model.Runs(g.Shards, len(m.models), m.First().Moved())
	}
	return m.travelling(), nil
}

// together reports the progress that all ranks have reached, and makes the callback of each.
func together(ranks int, say func(done, all int)) func(rank int) func(done, all int) {
	var mu sync.Mutex
	done, of := make([]int, ranks), make([]int, ranks)
	return func(rank int) func(int, int) {
		if say == nil {
			return nil
		}
		return func(n, most int) {
			mu.Lock()
			defer mu.Unlock()
			if n < done[rank] { // the next roll has begun
				clear(done)
				clear(of)
			}
			done[rank], of[rank] = n, most
			say(total(done), total(of))
		}
	}
}

// shared makes the look-ahead of each rank: its share where encoded prompts lie on a disk that all of them read.
func shared(ranks int, o model.Options) func(rank int) func() []int {
	var mu sync.Mutex
	return func(rank int) func() []int {
		if o.Ahead == nil {
			return nil
		}
		return func() (own []int) {
			mu.Lock()
			defer mu.Unlock()
			for i, n := range o.Ahead() {
				if o.Cache == "" || i%ranks == rank {
					own = append(own, n)
				}
			}
			return own
		}
	}
}

func total(x []int) (sum int) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// addUp leaves every rank with the sum of all ranks' gradients, or with those of the parameters that it owns. A
// parameter that no rank's backward reached stays without one.
func (m *Model) addUp(sum exchange.Sum) error {
	params, spans, owned := m.moved(), make([][]kernels.Span, len(m.models)), make([][]kernels.Span, len(m.models))
	owners := m.states.Owners()
	var of []int
	if m.parted() {
		if err := m.gather(params); err != nil {
			return err
		}
	}
	if m.received != nil {
		return m.graft(params)
	}
	for k := range params[0] {
		if !slices.ContainsFunc(params, func(own []*autograd.Param) bool { return own[k].Reached() }) {
			continue
		}
		into := spans
		if k < len(owners) {
			into, of = owned, append(of, owners[k])
		}
		for r := range params {
			into[r] = append(into[r], m.folded(r, params[r][k]).Span())
		}
	}
	if len(params) == 1 {
		return nil
	}
	if m.Meeting != nil {
		sum.Shards = len(params)
	}
	if err := sum.Add(spans); err != nil || len(of) == 0 {
		return err
	}
	d := exchange.Reduction{Ranks: sum.Ranks, Shards: sum.Shards, Limit: sum.Limit, Lines: &m.states.Lines}
	if err := d.Own(owned, of); err != nil {
		return err
	}
	m.states.Release()
	return nil
}

// parted reports whether a rank has several nodes of the tree, and not the ranks together those of other processes.
func (m *Model) parted() bool {
	return m.received == nil && slices.ContainsFunc(m.Runs, func(run exchange.Subtree) bool { return len(exchange.Nodes(m.Shards, run)) > 1 })
}

// gather brings the nodes of all ranks to the host, as those of other processes come. No rank has a gradient then.
func (m *Model) gather(params [][]*autograd.Param) error {
	reached := make([]bool, len(params[0]))
	for _, own := range params {
		for k, p := range own {
			reached[k] = reached[k] || p.Reached()
		}
	}
	nodes := make([][]model.Node, len(params))
	err := m.Team.Each(len(params), func(r int) error {
		for _, t := range exchange.Nodes(m.Shards, m.Runs[r]) {
			n := model.Node{Subtree: t, Sums: make([][]float32, len(reached))}
			for k, p := range params[r] {
				if reached[k] {
					n.Sums[k] = p.Fold(t.Lo, t.Hi).F32()
				}
			}
			nodes[r] = append(nodes[r], n)
		}
		for _, p := range params[r] {
			p.ZeroGrad()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.Receive(slices.Concat(nodes...))
}

// folded is a rank's gradient: the sum of its shards.
func (m *Model) folded(rank int, p *autograd.Param) *tensor.Tensor {
	if m.Shards == 0 {
		return p.AnyGrad()
	}
	own := m.runs()[rank]
	return p.Fold(own.Lo, own.Hi)
}

// shard lets a rank sum further gradients as those of shard k.
func (m *Model) shard(rank, k int) {
	for _, p := range m.models[rank].Moved() {
		p.Shard(k)
	}
}

// moved are the parameters that move, by rank.
func (m *Model) moved() [][]*autograd.Param {
	all := make([][]*autograd.Param, len(m.models))
	for r, own := range m.models {
		all[r] = own.Moved()
	}
	return all
}

var _ model.Model = (*Model)(nil)
var _ trainer.Developer = (*Model)(nil)
