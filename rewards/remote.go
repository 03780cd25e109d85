package rewards

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

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

// HTTP is a reward server. key is sent as a bearer token where it is not empty, and written
// nowhere; batch is how many items a request may hold.
func HTTP(address, key string, batch int, p call.Policy, cache *call.Cache) *Remote {
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	c := call.NewCaller(p, cache)
	return &Remote{name: "http " + redacted(address), batch: max(1, batch), caller: c, send: func(ctx context.Context, body []byte, _ int) ([]byte, error) {
		return c.Post(ctx, address, header, body)
	}}
}

// redacted is an address without a password.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that cannot be read)"
	}
	return u.Redacted()
}

type httpKeys struct {
	ServerKeys
	AtOnceKey
}

// HTTPKind is reward http.
var HTTPKind = Kind{
	Name:    "http",
	Card:    "A server that speaks the documented protocol.",
	Paper:   "a reward of your own",
	Judges:  Everything,
	Traits:  Prompted | Outside,
	Options: httpKeys{},
	CheckRun: Checks(func(k httpKeys, run Run) {
		if k.URL == "" {
			run.Report("name", "an http reward needs a url", `for example url = "http://localhost:8080"`)
		}
	}),
	Open: Opens(func(k httpKeys, b Bench) (Opened, error) {
		key, err := k.Secret()
		if err != nil {
			return Opened{}, err
		}
		if k.URL == "" {
			return Opened{}, errors.New("url is missing: where the server answers")
		}
		b.Policy.AtOnce = k.AtOnce
		return Opened{Judge: HTTP(k.URL, key, b.Batch, b.Policy, b.Cache)}, nil
	}),
}
