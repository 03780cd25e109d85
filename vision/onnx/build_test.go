package onnx

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
)

// Files of tests: messages of protocol buffers, as bytes.

// pb is a field: of an int or a bool a number, of a float32 four bytes, of text and bytes a run.
func pb(field int, v any) []byte {
	head := func(wire int) []byte { return binary.AppendUvarint(nil, uint64(field<<3|wire)) }
	switch v := v.(type) {
	case int:
		return binary.AppendUvarint(head(0), uint64(int64(v)))
	case float32:
		return binary.LittleEndian.AppendUint32(head(5), math.Float32bits(v))
	case string:
		return append(binary.AppendUvarint(head(2), uint64(len(v))), v...)
	case []byte:
		return append(binary.AppendUvarint(head(2), uint64(len(v))), v...)
	}
	panic("pb")
}

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// modelOf is a file of one graph.
func modelOf(opset int, graph ...[]byte) []byte {
	return join(pb(1, 8), pb(7, join(graph...)), pb(8, join(pb(1, ""), pb(2, opset))))
}

// nodeOf is a node of a graph, by the name "bad".
func nodeOf(op string, in, out []string, attributes ...[]byte) []byte {
	n := join(pb(3, "bad"), pb(4, op))
	for _, s := range in {
		n = append(n, pb(1, s)...)
	}
	for _, s := range out {
		n = append(n, pb(2, s)...)
	}
	for _, a := range attributes {
		n = append(n, pb(5, a)...)
	}
	return pb(1, n)
}

func intOf(name string, v int) []byte { return join(pb(1, name), pb(3, v), pb(20, 2)) }
func intsOf(name string, list ...int) []byte {
	a := join(pb(1, name), pb(20, 7))
	for _, v := range list {
		a = append(a, pb(8, v)...)
	}
	return a
}
func textOf(name, v string) []byte            { return join(pb(1, name), pb(4, v), pb(20, 3)) }
func graphOf(name string, g ...[]byte) []byte { return join(pb(1, name), pb(6, join(g...)), pb(20, 5)) }

// floatsOf is a constant of a graph, of numbers that rise by one.
func floatsOf(name string, dims ...int) []byte {
	n, t := 1, join(pb(2, 1), pb(8, name))
	for _, d := range dims {
		t = append(t, pb(1, d)...)
		n *= d
	}
	raw := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(float32(i)))
	}
	return pb(5, join(t, pb(9, raw)))
}

// wholesOf is a constant of a graph, one axis of int64.
func wholesOf(name string, list ...int) []byte {
	t := join(pb(1, len(list)), pb(2, 7), pb(8, name))
	for _, v := range list {
		t = append(t, pb(7, v)...)
	}
	return pb(5, t)
}

// wholeOf is a constant of one int64 without axes.
func wholeOf(name string, v int) []byte {
	return pb(5, join(pb(2, 7), pb(8, name), pb(7, v)))
}

func truthOf(name string) []byte { return pb(5, join(pb(2, 9), pb(8, name), pb(5, 1))) }

// infoIn is an input (11) or an output (12) of any shape.
func infoIn(field int, name string, kind int) []byte {
	return pb(field, join(pb(1, name), pb(2, pb(1, pb(1, kind)))))
}

func outputOf(names ...string) []byte {
	var out []byte
	for _, n := range names {
		out = append(out, infoIn(12, n, 1)...)
	}
	return out
}

func backend(t testing.TB) *cpu.Backend {
	t.Helper()
	b, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}
