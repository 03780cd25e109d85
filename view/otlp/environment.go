package otlp

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
