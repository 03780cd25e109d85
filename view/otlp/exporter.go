package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Card: a sender never waits. Spans are in memory until one goroutine sends them, some at a time; where a
// collector is busy or out of reach they are sent again, later each time, and spans without room are dropped and
// counted.
//
// Invariants (tests): Send returns at once with any collector; every span is sent once, or counted as lost.

// An Exporter brings spans to a collector.
type Exporter struct {
	Options
	client http.Client
	mu     sync.Mutex
	held   []Span
	sent   int
	lost   int
	why    error         // why the last of them were lost
	more   chan struct{} // there is something to bring
	over   chan struct{} // nothing more comes
	ended  chan struct{}
	cut    context.CancelFunc // ends the request under way
}

const (
	mostHeld   = 1 << 14 // spans
	mostAtOnce = 512
	tries      = 5               // of a request
	farewell   = 5 * time.Second // how long Close waits
)

// New begins to send spans.
func New(o Options) *Exporter {
	x := &Exporter{Options: o, client: http.Client{Timeout: o.Timeout, CheckRedirect: stays}, more: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{})}
	var ctx context.Context
	ctx, x.cut = context.WithCancel(context.Background())
	go x.bring(ctx)
	return x
}

// stays follows no redirect: headers may be secret, and are for the address that was given.
func stays(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Send has spans brought.
func (x *Exporter) Send(spans ...Span) {
	x.mu.Lock()
	room := max(0, mostHeld-len(x.held))
	if n := len(spans) - room; n > 0 {
		x.lost, x.why = x.lost+n, errors.New("the collector takes them more slowly than they come")
	}
	x.held = append(x.held, spans[:min(len(spans), room)]...)
	x.mu.Unlock()
	select {
	case x.more <- struct{}{}:
	default:
	}
}

// Close waits a little for the rest, and reports lost spans.
func (x *Exporter) Close() error {
	close(x.over)
	late := time.AfterFunc(farewell, x.cut)
	<-x.ended
	late.Stop()
	x.cut()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost > 0 {
		return fmt.Errorf("%d of %d spans did not reach %s: %w", x.lost, x.lost+x.sent, host(x.URL), x.why)
	}
	return nil
}

// bring sends spans until the queue is closed and empty.
func (x *Exporter) bring(ctx context.Context) {
	defer close(x.ended)
	for {
		x.mu.Lock()
		some := x.held[:min(len(x.held), mostAtOnce)]
		x.mu.Unlock()
		if len(some) == 0 {
			select {
			case <-x.more:
				continue
			case <-x.over:
			}
			x.mu.Lock()
			left := len(x.held)
			x.mu.Unlock()
			if left == 0 {
				return
			}
			continue
		}
		err := x.post(ctx, some)
		x.mu.Lock()
		if x.held = x.held[len(some):]; len(x.held) == 0 {
			x.held = nil // so that spans already sent are freed
		}
		if err != nil {
			if x.lost += len(some); x.why == nil || ctx.Err() == nil {
				x.why = err
			}
		} else {
			x.sent += len(some)
		}
		x.mu.Unlock()
	}
}

// post brings some, again and again where the collector is busy.
func (x *Exporter) post(ctx context.Context, spans []Span) error {
	text, err := body(x.About, x.Version, spans)
	if err != nil {
		return err
	}
	for n := range tries {
		if n > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(time.Second << (n - 1)):
			}
		}
		again, now := x.once(ctx, text)
		if err == nil || ctx.Err() == nil { // otherwise it was cut short, and the reason came before
			err = now
		}
		if now == nil || !again {
			return err
		}
	}
	return err
}

// once posts a request; again: it may do better later.
func (x *Exporter) once(ctx context.Context, text []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.URL, bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	for key, value := range x.Headers {
		r.Header.Set(key, value)
	}
	reply, err := x.client.Do(r)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) { // which repeats the address, with possible secrets
			err = of.Err
		}
		return ctx.Err() == nil, err
	}
	defer reply.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(reply.Body, 1<<16)) // so that the connection can be used again
	switch reply.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	if to, err := reply.Location(); err == nil {
		return again, fmt.Errorf("it answers %s, and redirects to %s, where headers are not sent\nhint: give that address if it is meant", reply.Status, host(to.String()))
	}
	return again, fmt.Errorf("it answers %s", reply.Status)
}
