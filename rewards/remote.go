package rewards

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

// A Remote is a reward outside, asked by the protocol (protocol.go). It is both a Reward and a
// Judge, which asks for several items at once.
type Remote struct {
	name   string
	batch  int
	caller *call.Caller
	send   func(ctx context.Context, body []byte, items int) ([]byte, error)
}

// Score asks for one item.
func (r *Remote) Score(ctx context.Context, item Item) (Score, error) {
	result := r.ask(ctx, []Item{item})[0]
	return result.Score, result.Missing
}

// Judge asks for all items, a batch at a time; batches are asked for beside each other, as far
// as the caller's policy allows.
func (r *Remote) Judge(ctx context.Context, items []Item) []Result {
	out := make([]Result, len(items))
	batches := (len(items) + r.batch - 1) / r.batch
	call.Spread(batches, r.caller.Policy().AtOnce, func(i int) {
		from, to := i*r.batch, min(len(items), (i+1)*r.batch)
		copy(out[from:to], r.ask(ctx, items[from:to]))
	})
	return out
}

// ask is one call; where it fails, all its items are missing.
func (r *Remote) ask(ctx context.Context, items []Item) []Result {
	body, err := encodeItems(items)
	var results []Result
	if err == nil {
		err = r.caller.Do(ctx, append([]byte(r.name+"\n"), body...), func(ctx context.Context) ([]byte, error) {
			return r.send(ctx, body, len(items))
		}, func(reply []byte) (whole bool, err error) {
			results, whole, err = decodeResults(reply, len(items))
			return whole, err
		})
	}
	if err != nil {
		results = make([]Result, len(items))
		for i := range results {
			results[i].Missing = fmt.Errorf("reward %s: %w", r.name, err)
		}
	}
	return results
}
