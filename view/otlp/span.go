package otlp

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
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
