package rewards

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/darkroom-rl/darkroom/rewards/call"
)

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
