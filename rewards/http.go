package rewards

import (
	"context"
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
