package model

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: gradients that other processes computed (trainer/fleet, trainer/ranks). A node is the sum of a subtree of
// shards,
//
//	g(lo, hi) = g(lo, mid) + g(mid, hi)    of shards, each the chain of its points in their order
//
// and nodes that cover all shards give the sum of the tree, whichever process computed which of them. A parameter that
// no backward of a node reached counts as zeros where another node's did, as it does among the shards of one device.
//
// Invariant (tests): the sum has the bits of one device's, for any nodes.

// MostGradient is the size of the largest gradient that travels between machines, in bytes: adapters have less, and
// whole networks have more.
const MostGradient = 2 << 30

// GradientBytes are those of a gradient of parameters in fp32.
func GradientBytes(moved []*autograd.Param) (n int64) {
	for _, p := range moved {
		n += 4 * int64(p.Len())
	}
	return n
}

// Runs are the shards of each rank: a subtree, or, of gradients that travel and where subtrees differ too much, a run
// of about as many shards as the others', which is several of them (exchange.Nodes).
func Runs(shards, ranks int, moved []*autograd.Param) []exchange.Subtree {
	owned, most := exchange.Owned(shards, ranks), 0
	for _, t := range owned {
		most = max(most, t.Hi-t.Lo)
	}
	if most <= (shards+ranks-1)/ranks || GradientBytes(moved) > MostGradient {
		return owned
	}
	for r := range owned {
		owned[r].Lo, owned[r].Hi = exchange.Share(r, ranks, shards)
	}
	return owned
}

// ShareOf is the most of n things that one of a run's ranks has.
func ShareOf(r experiment.Run, n int, moved []*autograd.Param) (most int) {
	ranks := len(r.Devices())
	if !r.Parted() {
		return (n + ranks - 1) / ranks
	}
	for _, own := range Runs(r.Shards, ranks, moved) {
		lo, _ := exchange.Share(own.Lo, r.Shards, n)
		_, hi := exchange.Share(own.Hi-1, r.Shards, n)
		most = max(most, hi-lo)
	}
	return most
}

// A Node is the gradient of a subtree of shards.
type Node struct {
	exchange.Subtree
	Sums [][]float32 // of the parameters that move, in their order; nil: no backward reached it
}

// A Pass is points of the network, and the gradients at its outputs there.
type Pass struct {
	At      []trainer.Point
	Grads   [][]float64
	Outputs func(outputs [][]float64) // is called with these; nil: nobody asks
}

// A Replayer is a model that computes the network at points and goes backward at once: once a point, however many
// passes these are.
type Replayer interface {
	// Replay takes the gradients at the outputs of the current weights, and returns these outputs, computed now.
	Replay(at []trainer.Point, grads [][]float64) (outputs [][]float64, err error)
}

// replay is a pass with a model.
func replay(m Model, p Pass) (outputs [][]float64, err error) {
	if r, ok := m.(Replayer); ok {
		return r.Replay(p.At, p.Grads)
	}
	forward, err := m.Eval(trainer.Current, p.At)
	if err != nil {
		return nil, err
	}
	return forward.Outputs, forward.Back(p.Grads)
}

// Attempt runs f, which computes with a model. Where memory runs out, f runs again with less of it, if the model can.
func Attempt(m Model, f func() error) error {
	if thrifty, ok := m.(trainer.Thrifty); ok {
		return thrifty.Attempt(f)
	}
	return f()
}

// NodeOf computes a node with a model of one device, which has no gradient before and afterwards. of returns the
// passes of a shard, in the order of the objective. Where memory runs out, the node is computed anew.
func NodeOf(m Model, t exchange.Subtree, of func(k int) ([]Pass, error)) (n Node, err error) {
	defer m.Params().Skip()
	err = Attempt(m, func() (err error) {
		m.Params().Skip()
		n, err = nodeOf(m, t, of)
		return err
	})
	return n, err
}

func nodeOf(m Model, t exchange.Subtree, of func(k int) ([]Pass, error)) (n Node, err error) {
	n.Subtree = t
	moved := m.Moved()
	for k := t.Lo; k < t.Hi; k++ {
		passes, err := of(k)
		if err != nil {
			return n, err
		}
		for _, p := range moved {
			p.Shard(k)
		}
		for _, pass := range passes {
			outputs, err := replay(m, pass)
			if err != nil {
				return n, err
			}
			if pass.Outputs != nil {
				pass.Outputs(outputs)
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
