// Package otlp sends traces to a collector, by OpenTelemetry's protocol over HTTP, as JSON.
//
//	o, on, err := otlp.FromEnvironment(os.Getenv)
//	x := otlp.New(o)
//	x.Send(spans...)     // never waits
//	err = x.Close()      // waits a little for what is left
//
// It is asked for by OpenTelemetry's own variables (environment.go), and costs nothing otherwise. span.go is what is
// sent, exporter.go how. Neither is part of what a run computes: a collector that is slow, or gone, loses spans and
// nothing else.
//
// It is written by hand: a span has twelve fields, and the SDK would bring a module for each layer above it.
package otlp
