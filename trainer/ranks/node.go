package ranks

import (
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Card: gradients that other processes computed (trainer/fleet). A node is the sum of a subtree of shards,
//
//	g(lo, hi) = g(lo, mid) + g(mid, hi)    of shards, each the chain of its points in their order
//
// and nodes that cover all shards give the sum of the tree, whoever computed which of them. A parameter that no
// backward of a node reached counts as zeros where another node's did, as it does among the shards of one device.
//
// Invariant (tests): the sum has the bits of one device's, for any nodes.

// A Node is the gradient of a subtree of shards.
type Node struct {
	exchange.Subtree
	Sums [][]float32 // of the parameters that move, in their order; nil: no backward reached it
}

// A Pass is points of the network, and the gradients at its outputs there.
type Pass struct {
	At    []trainer.Point
	Grads [][]float64
}

// NodeOf computes a node with a model of one device, which has no gradient before and afterwards. of returns the
// passes of a shard, in the order of the objective.
func NodeOf(m model.Model, t exchange.Subtree, of func(k int) ([]Pass, error)) (n Node, err error) {
	n.Subtree = t
	moved := m.Moved()
	defer m.Params().Skip()
	for k := t.Lo; k < t.Hi; k++ {
		passes, err := of(k)
		if err != nil {
			return n, err
		}
		for _, p := range moved {
			p.Shard(k)
		}
		for _, pass := range passes {
			forward, err := m.Eval(trainer.Current, pass.At)
			if err == nil {
				err = forward.Back(pass.Grads)
			}
			if err != nil {
				return n, err
			}
		}
	}
	n.Sums = make([][]float32, len(moved))
	for i, p := range moved {
		if p.Reached() {
			n.Sums[i] = p.Fold(t.Lo, t.Hi).F32()
		}
	}
	return n, nil
}

// Receive takes nodes that cover all shards, in the place of the ranks' own gradients: Norm adds them up. No rank has
// a gradient then.
func (m *Model) Receive(nodes []Node) error {
	next := 0
	slices.SortFunc(nodes, func(a, b Node) int { return a.Lo - b.Lo })
	for _, n := range nodes {
		if n.Lo != next {
			return fmt.Errorf("the gradient of shards %d to %d is missing", next, n.Lo-1)
		}
		next = n.Hi
	}
	if next != m.Shards {
		return errors.New("gradients do not cover all shards")
	}
	m.received = map[exchange.Subtree][][]float32{}
	for _, n := range nodes {
		m.received[n.Subtree] = n.Sums
	}
	return nil
}

// graft leaves every rank with the sum of the received nodes.
func (m *Model) graft(params [][]*autograd.Param) error {
	defer func() { m.received = nil }()
	return m.Team.Each(len(params), func(r int) error {
		for k, p := range params[r] {
			reached := false
			for _, sums := range m.received {
				reached = reached || sums[k] != nil
			}
			if !reached {
				continue
			}
			p.Graft(0, m.Shards, func(lo, hi int) ([]float32, bool) {
				sums, whole := m.received[exchange.Subtree{Lo: lo, Hi: hi}]
				if !whole {
					return nil, false
				}
				return sums[k], true
			})
		}
		return nil
	})
}
