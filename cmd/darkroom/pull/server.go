package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// server is a hub, as one pull uses it.
type server struct {
	Options
	base   *url.URL
	client *http.Client
}

func newServer(o Options) (*server, error) {
	o.Endpoint = cmp.Or(strings.TrimRight(o.Endpoint, "/"), "https://huggingface.co")
	o.Revision = cmp.Or(o.Revision, "main")
	o.Tries, o.Parallel = cmp.Or(o.Tries, 5), cmp.Or(o.Parallel, 4)
	o.Pause, o.Stall = cmp.Or(o.Pause, time.Second), cmp.Or(o.Stall, time.Minute)
	base, err := url.Parse(o.Endpoint)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("HF_ENDPOINT is %q, not the address of a hub, such as https://huggingface.co", o.Endpoint)
	}
	client := http.Client{}
	if o.Client != nil {
		client = *o.Client
	}
	client.CheckRedirect = followed
	return &server{Options: o, base: base, client: &client}, nil
}

// followed allows ten redirects, none of them from https to http, and sends the token to no other host or port.
func followed(next *http.Request, before []*http.Request) error {
	if len(before) >= 10 {
		return final{errors.New("more than 10 redirects")}
	}
	if next.URL.Scheme != "https" && next.URL.Scheme != "http" {
		return final{fmt.Errorf("redirected to %.60q, which is no address of a hub", next.URL.Scheme+"://"+next.URL.Host)}
	}
	if next.URL.Host != before[0].URL.Host {
		next.Header.Del("Authorization")
	}
	if next.URL.Scheme != "https" && before[0].URL.Scheme == "https" {
		return final{fmt.Errorf("redirected from https to %s://%s", next.URL.Scheme, next.URL.Host)}
	}
	return nil
}

// at is an address below the endpoint.
func (s *server) at(elements ...string) *url.URL {
	at := *s.base
	for i, e := range elements {
		if i > 0 && elements[i-1] != "models" { // OWNER/NAME keeps its slash
			e = url.PathEscape(e)
		}
		at.RawPath = cmp.Or(at.RawPath, at.Path) + "/" + e
		at.Path += "/" + elements[i]
	}
	return &at
}

// resolve is where a file's bytes are.
func (s *server) resolve(commit, name string) *url.URL {
	at := *s.base
	at.Path += "/" + s.Repo + "/resolve/" + commit + "/" + name
	return &at
}

// answer is a response whose connection is dropped when nothing comes for a while.
type answer struct {
	*http.Response
}

// get asks for a file or for a list, from the byte at offset on.
func (s *server) get(ctx context.Context, at *url.URL, offset int64) (*answer, error) {
	ctx, stop := context.WithCancelCause(ctx)
	idle := time.AfterFunc(s.Stall, func() { stop(errStalled) })
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, final{err}
	}
	q.Header.Set("User-Agent", "darkroom")
	q.Header.Set("Accept-Encoding", "identity") // hashes and offsets are of the file's own bytes
	if s.Token != "" {
		q.Header.Set("Authorization", "Bearer "+s.Token)
	}
	if offset > 0 {
		q.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	r, err := s.client.Do(q)
	if err != nil {
		stop(nil)
		return nil, without(ctx, err)
	}
	r.Body = &watched{ReadCloser: r.Body, ctx: ctx, idle: idle, stall: s.Stall, stop: stop}
	a := &answer{Response: r}
	if err := s.refused(r); err != nil {
		r.Body.Close()
		return nil, err
	}
	return a, nil
}

var errStalled = errors.New("nothing came for too long")

// without leaves the address out of an error: a redirect's has signatures in it.
func without(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		if f := (final{}); errors.As(e.Err, &f) {
			return f
		}
		host := ""
		if u, bad := url.Parse(e.URL); bad == nil {
			host = u.Host + ": "
		}
		return fmt.Errorf("%s%w", host, e.Err)
	}
	return err
}

// watched is a body that is dropped when it stalls.
type watched struct {
	io.ReadCloser
	ctx   context.Context
	idle  *time.Timer
	stall time.Duration
	stop  context.CancelCauseFunc
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.idle.Reset(w.stall)
	}
	if err != nil && err != io.EOF {
		err = without(w.ctx, err)
	}
	return n, err
}

func (w *watched) Close() error {
	w.idle.Stop()
	defer w.stop(nil)
	return w.ReadCloser.Close()
}

// all is a whole body of a limited size.
func (a *answer) all(limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(a.Body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = final{fmt.Errorf("the answer has more than %d bytes", limit)}
	}
	return text, err
}

// final is an error that another try would not change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// later is an error after which a server asked to wait.
type later struct {
	error
	wait time.Duration
}

// refused is the error of a status, in words that name the remedy.
func (s *server) refused(r *http.Response) error {
	code, at := r.StatusCode, r.Request.URL.Host
	if code == http.StatusOK || code == http.StatusPartialContent {
		return nil
	}
	said := printable(r.Header.Get("X-Error-Message"))
	switch {
	case code == http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case r.Header.Get("X-Error-Code") == "GatedRepo" || code == http.StatusForbidden:
		return final{fmt.Errorf("%s is gated, or this token may not read it (%d %s)\nhint: accept its terms on its page, and set HF_TOKEN to a token that may read it", s.Repo, code, said)}
	case code == http.StatusUnauthorized:
		return final{fmt.Errorf("%s does not exist, or is not public (401 %s)\nhint: check the name; for one that is private or gated set HF_TOKEN", s.Repo, said)}
	case code == http.StatusNotFound:
		return final{fmt.Errorf("%s has no such repository, revision or file: %s at %q (404 %s)", at, s.Repo, s.Revision, said)}
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return later{fmt.Errorf("%s answers %d: too much is asked of it", at, code), pause(r.Header.Get("Retry-After"))}
	case code >= 500 || code == http.StatusRequestTimeout:
		return fmt.Errorf("%s answers %d", at, code)
	}
	return final{fmt.Errorf("%s answers %d %s", at, code, said)}
}

var errRange = errors.New("the server has no bytes there")

// pause is the pause of Retry-After, five minutes at most.
func pause(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, 5*time.Minute)
}

// printable is a server's words without control characters, shortened.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}

// tried calls once until it succeeds, fails for good, or has failed Tries times in a row without
// moving further than it ever was.
func (s *server) tried(ctx context.Context, once func() (moved bool, err error)) error {
	wait := s.Pause
	for failed := 0; ; {
		moved, err := once()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f := (final{}); errors.As(err, &f) {
			return f.error
		}
		if failed++; moved {
			failed, wait = 1, s.Pause
		}
		if failed >= s.Tries {
			return fmt.Errorf("%w (%d tries)", err, failed)
		}
		asked := later{}
		errors.As(err, &asked)
		select {
		case <-time.After(max(wait, asked.wait)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, 30*time.Second)
	}
}
