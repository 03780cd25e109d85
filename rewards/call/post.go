package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/plain"
)

// Post sends JSON to a URL and returns the body of the answer. Refused connections, those that break off, and servers
// that are overloaded or broken (408, 425, 429, 5xx) are passing failures. A redirection to another host is refused:
// the content may be private.
func (c *Caller) Post(ctx context.Context, url string, header http.Header, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	switch {
	case errors.Is(err, errElsewhere) || errors.Is(err, errNotPosted) || err != nil && !slices.Contains([]string{"http", "https"}, r.URL.Scheme):
		return nil, err
	case err != nil:
		return nil, Passing(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is given up
	reply, err := Read(answer.Body, c.policy.Bytes)
	if answer.StatusCode == http.StatusOK {
		return reply, err
	}
	err = fmt.Errorf("%s answers %s: %s", r.URL.Host, Shown([]byte(answer.Status)), Shown(reply))
	if slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, answer.StatusCode) || answer.StatusCode >= 500 {
		err = Passing(err)
	}
	return nil, err
}

var client = &http.Client{CheckRedirect: sameHost}

var errElsewhere = errors.New("it redirects to another host, to which prompts and pictures are not sent: give that address if it is meant")

var errNotPosted = errors.New("it redirects by a status that turns POST into GET (use 307 or 308, or give the last address)")

// sameHost lets requests be redirected within a host alone, and as they are: a POST that became a GET
// would ask nothing.
func sameHost(r *http.Request, before []*http.Request) error {
	first := before[0]
	switch {
	case r.URL.Host != first.URL.Host || first.URL.Scheme == "https" && r.URL.Scheme != "https":
		return fmt.Errorf("%s: %w", r.URL.Host, errElsewhere)
	case r.Method != first.Method:
		return errNotPosted
	case len(before) >= 10:
		return errors.New("it redirects more than 10 times")
	}
	return nil
}

// Read reads up to limit bytes; more is an error that is final.
func Read(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("the reply is longer than %d bytes", limit)
	}
	if err != nil {
		return nil, Passing(fmt.Errorf("the reply breaks off after %d bytes: %w", len(data), err))
	}
	return data, nil
}

// Shown is the beginning of a reply, for people: of one line and printable.
func Shown(reply []byte) string {
	text := strings.ToValidUTF8(string(reply[:min(len(reply), 120)]), "?")
	return plain.Text(strings.Join(strings.Fields(text), " "))
}
