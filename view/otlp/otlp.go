// Package otlp sends traces to a collector, by OpenTelemetry's protocol over HTTP, as JSON.
//
//	o, on, err := otlp.FromEnvironment(os.Getenv)
//	x := otlp.New(o)
//	x.Send(spans...)     // never waits
//	err = x.Close()      // waits a little for the rest
//
// OpenTelemetry's own variables turn it on (FromEnvironment); it costs nothing otherwise. A run's numbers do not
// change: a collector that is slow, or gone, loses spans and nothing else.
//
// It is written by hand: a span has twelve fields, and the SDK would bring a module for each layer above it.
package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Card: OTLP/HTTP 1.x with JSON (opentelemetry.io/docs/specs/otlp): POST of an ExportTraceServiceRequest. Its JSON is
// protobuf's, but that identifiers are hexadecimal; whole numbers of 64 bits are strings.

// A Trace is the identifier of spans that belong together; an ID that of one of them.
type (
	Trace [16]byte
	ID    [8]byte
)

// A Span is something that took its time.
type Span struct {
	Trace        Trace
	ID           ID
	Parent       ID // zero: none
	Name         string
	Began, Ended time.Time
	About        map[string]any // string, bool, int, int64 or float64
	Failed       string         // why it came to nothing; "": it did not
}

type (
	request struct {
		Of []ofResource `json:"resourceSpans"`
	}
	ofResource struct {
		Resource resource  `json:"resource"`
		Scopes   []ofScope `json:"scopeSpans"`
	}
	resource struct {
		About []attribute `json:"attributes"`
	}
	ofScope struct {
		Scope scope      `json:"scope"`
		Spans []wireSpan `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	wireSpan struct {
		Trace  string      `json:"traceId"`
		ID     string      `json:"spanId"`
		Parent string      `json:"parentSpanId,omitempty"`
		Name   string      `json:"name"`
		Kind   int         `json:"kind"`
		Began  string      `json:"startTimeUnixNano"`
		Ended  string      `json:"endTimeUnixNano"`
		About  []attribute `json:"attributes,omitempty"`
		Status *status     `json:"status,omitempty"`
	}
	status struct {
		Code int    `json:"code"`
		Why  string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

const (
	inside = 1 // SPAN_KIND_INTERNAL
	failed = 2 // STATUS_CODE_ERROR
)

// body is a request that brings spans.
func body(about map[string]any, version string, spans []Span) ([]byte, error) {
	s := ofScope{Scope: scope{Name: "darkroom", Version: version}}
	for _, one := range spans {
		s.Spans = append(s.Spans, one.wire())
	}
	return json.Marshal(request{[]ofResource{{resource{attributes(about)}, []ofScope{s}}}})
}

func (s Span) wire() wireSpan {
	w := wireSpan{Trace: hex.EncodeToString(s.Trace[:]), ID: hex.EncodeToString(s.ID[:]), Name: s.Name, Kind: inside,
		Began: strconv.FormatInt(s.Began.UnixNano(), 10), Ended: strconv.FormatInt(s.Ended.UnixNano(), 10), About: attributes(s.About)}
	if s.Parent != (ID{}) {
		w.Parent = hex.EncodeToString(s.Parent[:])
	}
	if s.Failed != "" {
		w.Status = &status{failed, s.Failed}
	}
	return w
}

// attributes are in the order of their keys.
func attributes(about map[string]any) (all []attribute) {
	for _, key := range slices.Sorted(maps.Keys(about)) {
		value := map[string]any{}
		switch v := about[key].(type) {
		case string:
			value["stringValue"] = v
		case bool:
			value["boolValue"] = v
		case int:
			value["intValue"] = strconv.Itoa(v)
		case int64:
			value["intValue"] = strconv.FormatInt(v, 10)
		case float64:
			value["doubleValue"] = v
		}
		all = append(all, attribute{key, value})
	}
	return all
}

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

// Options are the address of a collector, and the sender's attributes.
type Options struct {
	URL     string
	Headers map[string]string
	Timeout time.Duration  // of a request
	About   map[string]any // the resource: service.name and others
	Version string         // of the program
}

// FromEnvironment reads OpenTelemetry's variables; on: traces are asked for. Those of traces go before those of all
// signals.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT          a collector, to which /v1/traces is added
//	OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   the whole address
//	OTEL_EXPORTER_OTLP_HEADERS           key=value,key=value, percent-encoded
//	OTEL_EXPORTER_OTLP_TIMEOUT           milliseconds
//	OTEL_EXPORTER_OTLP_PROTOCOL          http/json, or http/protobuf, whose collectors take JSON, too
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//	OTEL_SDK_DISABLED=true, OTEL_TRACES_EXPORTER=none
func FromEnvironment(get func(string) string) (o Options, on bool, err error) {
	of := func(what string) (name, value string) {
		if name = "OTEL_EXPORTER_OTLP_TRACES_" + what; get(name) == "" {
			name = "OTEL_EXPORTER_OTLP_" + what
		}
		return name, get(name)
	}
	endpoint, address := of("ENDPOINT")
	if o.URL = address; address != "" && endpoint == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		o.URL = strings.TrimRight(address, "/") + "/v1/traces"
	}
	exporter := get("OTEL_TRACES_EXPORTER")
	if o.URL == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || exporter == "none" {
		return o, false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return o, false, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: otlp and none are possible", exporter)
	}
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return o, false, fmt.Errorf("%s: an address such as http://127.0.0.1:4318 is needed, where a collector listens for HTTP", endpoint)
	}
	if name, p := of("PROTOCOL"); p != "" && !strings.HasPrefix(p, "http/") {
		return o, false, fmt.Errorf("%s=%s: traces go by http/json\nhint: a collector listens for that on port 4318 as a rule", name, p)
	}
	o.Timeout = 10 * time.Second
	if name, text := of("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return o, false, fmt.Errorf("%s=%s: milliseconds are needed", name, text)
		}
		o.Timeout = time.Duration(ms) * time.Millisecond
	}
	headers, text := of("HEADERS")
	if o.Headers, err = pairs(text); err != nil {
		return o, false, fmt.Errorf("%s: %w", headers, err)
	}
	resource, err := pairs(get("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return o, false, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	o.About = map[string]any{"service.name": "darkroom"}
	for key, value := range resource {
		o.About[key] = value
	}
	if name := get("OTEL_SERVICE_NAME"); name != "" {
		o.About["service.name"] = name
	}
	return o, true, nil
}

// pairs reads key=value,key=value. Its error does not repeat a possible secret.
func pairs(text string) (map[string]string, error) {
	all := map[string]string{}
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || err != nil || key == "" {
			return nil, fmt.Errorf("entry %d is no key=value, percent-encoded", i+1)
		}
		all[key] = decoded
	}
	return all, nil
}

// host returns an address without possible secrets.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the collector"
	}
	return u.Host
}
