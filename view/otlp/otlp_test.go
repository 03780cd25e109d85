package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// collector is a collector that answers with these codes in turn, and with 200 from then on.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	codes []int
	got   []request
	says  []string // of a header
}

func newCollector(t *testing.T, codes ...int) *collector {
	c := &collector{codes: codes}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.codes) > 0 {
			w.WriteHeader(c.codes[0])
			c.codes = c.codes[1:]
			return
		}
		var q request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.got, c.says = append(c.got, q), append(c.says, r.Header.Get("Key"))
	}))
	t.Cleanup(c.Close)
	return c
}

// environment is that of variables.
func environment(pairs ...string) func(string) string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return all[name] }
}

// TestSent: a collector gets requests of the protocol, with a pause where it is busy.
func TestSent(t *testing.T) {
	c := newCollector(t, http.StatusServiceUnavailable)
	o, on, err := FromEnvironment(environment("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL+"/", "OTEL_EXPORTER_OTLP_HEADERS", "key=a%20b",
		"OTEL_RESOURCE_ATTRIBUTES", "host.name=box", "OTEL_SERVICE_NAME", "mine"))
	if err != nil || !on {
		t.Fatal(on, err)
	}
	o.Version = "v1"
	x := New(o)
	x.Send(Span{Trace: Trace{0xab, 1}, ID: ID{0xcd}, Parent: ID{1}, Name: "job", Began: time.Unix(1, 5), Ended: time.Unix(2, 0),
		About: map[string]any{"n": 3, "share": 0.5, "ok": true, "who": "w"}, Failed: "gone"})
	x.Send(Span{Trace: Trace{1}, ID: ID{2}, Name: "iteration", Began: time.Unix(1, 0), Ended: time.Unix(2, 0)})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if c.says[0] != "a b" {
		t.Errorf("the header says %q", c.says)
	}
	text, err := json.Marshal(c.got[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"resourceSpans":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"box"}},{"key":"service.name","value":{"stringValue":"mine"}}]},` +
		`"scopeSpans":[{"scope":{"name":"darkroom","version":"v1"},"spans":[{"traceId":"ab010000000000000000000000000000","spanId":"cd00000000000000","parentSpanId":"0100000000000000",` +
		`"name":"job","kind":1,"startTimeUnixNano":"1000000005","endTimeUnixNano":"2000000000","attributes":[{"key":"n","value":{"intValue":"3"}},{"key":"ok","value":{"boolValue":true}},` +
		`{"key":"share","value":{"doubleValue":0.5}},{"key":"who","value":{"stringValue":"w"}}],"status":{"code":2,"message":"gone"}}`
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("it got\n%s\nwant\n%s", text, want)
	}
	spans := 0
	for _, q := range c.got {
		spans += len(q.Of[0].Scopes[0].Spans)
	}
	if spans != 2 {
		t.Errorf("%d spans came", spans)
	}
}

// TestRefused: refused spans are counted, and reported without possible secrets.
func TestRefused(t *testing.T) {
	c := newCollector(t, http.StatusUnauthorized)
	o, _, err := FromEnvironment(environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", strings.Replace(c.URL, "http://", "http://me:secret@", 1)))
	if err != nil {
		t.Fatal(err)
	}
	x := New(o)
	x.Send(make([]Span, 3)...)
	if err := x.Close(); err == nil || !strings.Contains(err.Error(), "3 of 3 spans") || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestRedirected: headers may be secret, and go to nobody whom a collector names.
func TestRedirected(t *testing.T) {
	asked := atomic.Int64{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/v1/traces?key=secret", http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	x := New(Options{URL: first.URL, Headers: map[string]string{"api-key": "secret"}, Timeout: time.Minute})
	x.Send(Span{})
	err := x.Close()
	if err == nil || !strings.Contains(err.Error(), "redirects to "+strings.TrimPrefix(other.URL, "http://")+", where") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestNobody: a sender does not wait for a collector that never answers; spans without room are counted.
func TestNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Options{URL: "http://nobody/v1/traces", Timeout: time.Second})
		x.client.Transport = never{}
		began := time.Now()
		for range mostHeld + 7 {
			x.Send(Span{})
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("who sends waits %v", d)
		}
		err := x.Close()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d", mostHeld+7, mostHeld+7)) {
			t.Error(err)
		}
		if d := time.Since(began); d > farewell {
			t.Errorf("it ends after %v", d)
		}
	})
}

// TestGone: the message about a collector out of reach has the cause, also when it is given up, and no possible secret
// of its address.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Options{URL: "http://nobody/v1/traces?key=secret", Timeout: time.Second})
		x.client.Transport = refuses{}
		x.Send(make([]Span, mostAtOnce+1)...)
		if err := x.Close(); err == nil || !strings.Contains(err.Error(), "513 of 513") || !strings.Contains(err.Error(), "nobody listens") || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	})
}

// refuses has nobody at the other end.
type refuses struct{}

func (refuses) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("nobody listens")
}

// never never answers.
type never struct{}

func (never) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestEnvironment: who asks for no traces gets none, and mistakes are named.
func TestEnvironment(t *testing.T) {
	const endpoint, at = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"
	for _, c := range []struct {
		set  []string
		on   bool
		says string
	}{
		{nil, false, ""},
		{[]string{endpoint, at}, true, ""},
		{[]string{endpoint, at, "OTEL_SDK_DISABLED", "true"}, false, ""},
		{[]string{endpoint, at, "OTEL_TRACES_EXPORTER", "none"}, false, ""},
		{[]string{endpoint, at, "OTEL_TRACES_EXPORTER", "zipkin"}, false, "otlp and none"},
		{[]string{endpoint, at, "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, true, ""},
		{[]string{endpoint, at, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, false, "4318"},
		{[]string{endpoint, "127.0.0.1:4318"}, false, "http://127.0.0.1:4318"},
		{[]string{endpoint, at, "OTEL_EXPORTER_OTLP_HEADERS", "secret"}, false, "entry 1"},
		{[]string{endpoint, at, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "1s"}, false, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=1s: milliseconds"},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:4318"}, false, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: an address"},
	} {
		o, on, err := FromEnvironment(environment(c.set...))
		if on != c.on || (err != nil) != (c.says != "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%v: on %v, %v", c.set, on, err)
		}
		if want := map[string]any{"service.name": "darkroom"}; on && !reflect.DeepEqual(o.About, want) {
			t.Errorf("%v: %v", c.set, o.About)
		}
	}
}
