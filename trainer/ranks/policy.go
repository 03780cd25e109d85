package ranks

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
)

// Card: data parallel. Ranks hold the same parameters; rank r rolls, and answers for, the run
//
//	[r·n/W, (r+1)·n/W)  of n keys or points, W ranks
//
// whose draws are functions of their keys, and whose bits do not depend on their batch: so samples, answers, scores,
// advantages and losses are those of one device to the last bit.
//
// Gradients have the bits of K shards (run.shards). Shard k is the run [k·n/K, (k+1)·n/K) of n points, summed apart in
// the points' order, and shards are added in a binary tree,
//
//	g(lo, hi) = g(lo, mid) + g(mid, hi)    mid = (lo + hi) / 2
//
// of which each rank has a subtree, or several, where one would leave ranks with far more shards than others. So a run
// with run.shards = K has the same bytes on any number of devices up to K, one among them, which computes the passes of
// its shards one after another.
//
// Without shards a rank adds up its own samples in their order, and the ranks' sums are added in the order of ranks,
// which is another order of additions than one device's, whose chain goes on from sample to sample (fp32 addition is
// not associative). A run's bits thus depend on W and not on the transport of gradients; two ranks on one device have
// the bits of two on two.
//
// Every rank moves its own copy by the same sum with the same operations, so copies stay equal.
//
// Ranks may share the tokens of every pass instead (run.tokens; kernels/autograd): then each has all keys and points,
// and comes to the same answers, and rank r's gradient is that of its tokens. They are added in the tree, so that a
// gradient has the bits of K shares of tokens, on any number of devices.
//
// A rank that fails ends the work of all (exchange.Team): its error is reported, and the others are stopped.
//
// Invariants (tests): samples and answers are those of one policy; the gradient is the sum in the order of ranks; a
// share may be empty; a rank's failure is reported with its name.

// Policy is several policies as one. It is a trainer.Policy.
type Policy struct {
	Members []trainer.Policy // rank 0 first
	// Sum replaces every member's gradient by the sum over all; it is called once an update. nil
	// where nothing is trained.
	Sum  func() error
	Team exchange.Team // the ranks' names, and how they wait for one another
	// Shards are those of the gradient; 0: each rank has one, and they are added in the order of ranks. Shard lets a
	// member sum further gradients as those of shard k.
	Shards int
	Shard  func(rank, k int)
	Runs   []exchange.Subtree // of shards, by rank; nil: exchange.Owned
	// Meeting is where ranks exchange tokens that share those of every pass; nil: they share keys and points.
	Meeting *exchange.Meeting
	// Whole rolls all samples of a prompt on one rank: samples of one may depend on each other (episode.tree).
	Whole  bool
	summed bool
}

// Roll shares keys out.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	parts, ends := make([][]trainer.Sample, len(p.Members)), p.ends(keys)
	err := p.each(len(ends)-1, func(r, lo, hi int) (err error) {
		lo, hi = ends[lo], ends[hi]
		parts[r], err = p.Members[r].Roll(w, keys[lo:hi])
		if err == nil && len(parts[r]) != hi-lo {
			err = fmt.Errorf("%d samples were rolled for %d keys", len(parts[r]), hi-lo)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	samples := make([]trainer.Sample, 0, len(keys))
	for _, part := range answered(p, parts) {
		samples = append(samples, part...)
	}
	return samples, nil
}

// answered are the answers that count: those of all ranks, or of the first where all have the same.
func answered[T any](p *Policy, parts []T) []T {
	if p.Meeting != nil {
		return parts[:1]
	}
	return parts
}

// ends are the places where the keys of a roll may be parted, with both ends.
func (p *Policy) ends(keys []trainer.Key) (all []int) {
	for i, k := range keys {
		if i == 0 || !p.Whole || k.Prompt != keys[i-1].Prompt {
			all = append(all, i)
		}
	}
	return append(all, len(keys))
}

// Eval shares points out. Back goes to those that answered.
func (p *Policy) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	parts := make([]trainer.Forward, len(p.Members))
	var all trainer.Forward
	err := p.each(len(at), func(r, lo, hi int) (err error) {
		parts[r], err = p.Members[r].Eval(w, at[lo:hi])
		if err == nil && len(parts[r].Outputs) != hi-lo {
			err = fmt.Errorf("%d answers were given to %d points", len(parts[r].Outputs), hi-lo)
		}
		return err
	})
	if err != nil {
		return all, err
	}
	for _, part := range answered(p, parts) {
		all.Outputs = append(all.Outputs, part.Outputs...)
	}
	if w != trainer.Current {
		return all, nil
	}
	all.Back = func(grads [][]float64) error {
		if len(grads) != len(at) {
			return fmt.Errorf("%d gradients for %d answers", len(grads), len(at))
		}
		if p.Shards == 0 {
			return p.Backward(len(at), func(r, lo, hi int) error { return parts[r].Back(grads[lo:hi]) })
		}
		return p.Backward(len(at), func(r, lo, hi int) error {
			if own := parts[r]; len(own.Outputs) == hi-lo { // the rank's only shard with points
				return own.Back(grads[lo:hi])
			}
			again, err := p.Members[r].Eval(w, at[lo:hi])
			if err != nil {
				return err
			}
			return again.Back(grads[lo:hi])
		})
	}
	return all, nil
}

// Backward shares n things out to f, which adds to the gradient of a rank.
func (p *Policy) Backward(n int, f func(rank, lo, hi int) error) error {
	if p.summed {
		return errors.New("a gradient came after those of all ranks were added up, and before the weights moved")
	}
	if p.Shards == 0 {
		return p.each(n, f)
	}
	owned := p.runs()
	return p.each(n, func(r, _, _ int) error {
		for k := owned[r].Lo; k < owned[r].Hi; k++ {
			lo, hi := exchange.Share(k, p.Shards, n)
			if lo == hi {
				continue
			}
			p.Shard(r, k)
			if err := f(r, lo, hi); err != nil {
				return err
			}
		}
		return nil
	})
}

// runs are the ranks' shards.
func (p *Policy) runs() []exchange.Subtree {
	if p.Runs != nil {
		return p.Runs
	}
	return exchange.Owned(p.Shards, len(p.Members))
}

// share is a rank's part of n things: the run of its shards.
func (p *Policy) share(r, n int) (lo, hi int) {
	switch {
	case p.Meeting != nil:
		return 0, n
	case p.Shards == 0:
		return exchange.Share(r, len(p.Members), n)
	}
	own := p.runs()[r]
	lo, _ = exchange.Share(own.Lo, p.Shards, n)
	_, hi = exchange.Share(own.Hi-1, p.Shards, n)
	return lo, hi
}

// each calls f for every rank with a share that is not empty. Numbers that are not finite do not fail a rank: the
// others come to their end, or, where they wait for it in the midst of a pass, end as it does; and the run goes on.
func (p *Policy) each(n int, f func(rank, lo, hi int) error) error {
	odd := make([]error, len(p.Members))
	err := p.together().Each(len(p.Members), func(r int) error {
		lo, hi := p.share(r, n)
		if lo == hi {
			return exchange.ErrIdle
		}
		err := f(r, lo, hi)
		if errors.As(err, new(kernels.NotFinite)) {
			if odd[r] = err; p.Meeting != nil {
				p.Meeting.Abort(err)
			}
			err = nil
		}
		return err
	})
	return cmp.Or(err, cmp.Or(odd...))
}

// together is the ranks' team at work. One that fails lets others go that wait for it in the midst of a pass.
func (p *Policy) together() exchange.Team {
	team, stop := p.Team, p.Team.Stop
	if p.Meeting == nil {
		return team
	}
	p.Meeting.Begin()
	team.Stop = func() {
		p.Meeting.Abort(errors.New("another rank has failed"))
		if stop != nil {
			stop()
		}
	}
	return team
}

// apart shares n things out that a rank computes by itself.
func (p *Policy) apart(n int, f func(rank, lo, hi int) error) error {
	alone := *p
	alone.Meeting = nil
	return alone.each(n, f)
}

// Params are the weights of all ranks.
func (p *Policy) Params() trainer.Params { return params{p} }

type params struct{ *Policy }

// A sharer moves some parameters, and has copies of the others (model.Learner).
type sharer interface {
	Measure() // its part of Norm
	Refresh() // copies parameters that others moved
}

// Norm adds up the ranks' gradients, and is the sum's length.
func (p params) Norm() (float64, error) {
	if !p.summed {
		if err := p.Sum(); err != nil {
			return 0, err
		}
		p.summed = true
	}
	err := p.Team.Each(len(p.Members), func(r int) error {
		if own, ok := p.Members[r].Params().(sharer); ok {
			own.Measure()
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return p.Members[0].Params().Norm()
}

// Move moves every rank by the same gradient. Norm comes first.
func (p params) Move(scale, rate float64) {
	if !p.summed {
		panic("ranks: Move before Norm: every rank would go its own way")
	}
	p.all(func(own trainer.Params) { own.Move(scale, rate) })
	p.all(func(own trainer.Params) {
		if s, ok := own.(sharer); ok {
			s.Refresh()
		}
	})
	p.summed = false
}

// Skip forgets every rank's gradient.
func (p params) Skip() {
	p.all(func(own trainer.Params) { own.Skip() })
	p.summed = false
}

// Follow lets the other weights of every rank follow.
func (p params) Follow(w trainer.Weights, decay float64) {
	p.all(func(own trainer.Params) { own.Follow(w, decay) })
}

func (p params) all(f func(own trainer.Params)) {
	err := p.Team.Each(len(p.Members), func(r int) error {
		f(p.Members[r].Params())
		return nil
	})
	if err != nil { // a device's; there is no other way out of Move
		panic(err)
	}
}
