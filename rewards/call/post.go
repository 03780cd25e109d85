package call

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Post sends JSON to a URL and returns the body of the answer. Refused connections, those that
// break off, and servers that are overloaded or broken (408, 425, 429, 5xx) are passing failures.
func (c *Caller) Post(ctx context.Context, url string, header http.Header, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, Passing(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is given up
	reply, err := Read(answer.Body, c.policy.Bytes)
	if answer.StatusCode == http.StatusOK {
		return reply, err
	}
	err = fmt.Errorf("%s answers %s: %s", r.URL.Host, answer.Status, Shown(reply))
	if slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, answer.StatusCode) || answer.StatusCode >= 500 {
		err = Passing(err)
	}
	return nil, err
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
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, string(reply[:min(len(reply), 120)]))
	return strings.ToValidUTF8(text, "?")
}
