// Package otlp sends traces to a collector, by OpenTelemetry's protocol over HTTP, as JSON.
//
//	o, on, err := otlp.FromEnvironment(os.Getenv)
//	x := otlp.New(o)
//	x.Send(spans...)     // never waits
//	err = x.Close()      // waits a little for the rest
//
// OpenTelemetry's own variables turn it on (environment.go); it costs nothing otherwise. span.go has the data sent,
// exporter.go the sending. Neither changes a run's numbers: a collector that is slow, or gone, loses spans and nothing
// else.
//
// It is written by hand: a span has twelve fields, and the SDK would bring a module for each layer above it.
package otlp
