// Package proto reads ONNX files: the messages of onnx.proto that a runner needs, by a reader of protocol buffers of
// its own. Bytes of tensors are views of the file's.
//
//	m, err := proto.Read(data)
//
// Start with Read. Invariants (tests): no file makes Read panic; nesting of graphs is bounded; unknown fields are
// skipped, as protocol buffers ask for.
package proto

import (
	"fmt"
)

// A Model is a file.
type Model struct {
	IR       int64
	Producer string
	Opsets   map[string]int64 // by domain; "ai.onnx" is ""
	Metadata map[string]string
	Graph    *Graph
	// Functions are operators that the file defines itself.
	Functions []Function
}

// A Function is an operator that a file defines by others.
type Function struct{ Domain, Name string }

// A Graph is nodes in an order in which they can run.
type Graph struct {
	Name         string
	Nodes        []*Node
	Initializers []*Tensor
	Sparse       int // sparse initializers
	Inputs       []Info
	Outputs      []Info
}

// An Info is the declared type of a value.
type Info struct {
	Name string
	Type int32 // of a tensor's elements; 0: not a tensor
	Dims []Dim // nil with Known false: of any rank
	// Known is whether a shape is declared.
	Known bool
}

// A Dim is an axis: a length, or a name for one that the file leaves open.
type Dim struct {
	Length int64
	Name   string
	Fixed  bool
}

// A Node is one use of an operator.
type Node struct {
	Name, Op, Domain string
	Inputs, Outputs  []string
	Attributes       map[string]*Attribute
}

// An Attribute is a constant of a node.
type Attribute struct {
	Name    string
	Type    int64
	Float   float32
	Int     int64
	Text    []byte
	Tensor  *Tensor
	Graph   *Graph
	Floats  []float32
	Ints    []int64
	Strings [][]byte
	Sparse  bool
	Ref     string // the function's attribute that it repeats
}

// A Tensor is constant numbers as the file has them: raw bytes, or one of the typed lists.
type Tensor struct {
	Name     string
	Type     int32
	Dims     []int64
	Raw      []byte
	HasRaw   bool
	Floats   []float32
	Ints     []int64 // int32_data, int64_data and uint64_data
	Doubles  []float64
	Strings  [][]byte
	External map[string]string // location, offset, length
	Outside  bool              // the numbers lie in another file
	Segment  bool
}

// Limits of files.
const (
	MostDepth = 16      // graphs within graphs
	MostNodes = 1 << 18 // of all graphs
	mostRank  = 64
	mostTexts = 1 << 20 // of a tensor: each takes more memory than the file has bytes of it
)

type reader struct{ nodes int }

// Read is the model of a file's bytes.
func Read(data []byte) (*Model, error) {
	r := &reader{}
	m := &Model{Opsets: map[string]int64{}, Metadata: map[string]string{}}
	err := fields(data, func(x field) (err error) {
		switch x.number {
		case 1:
			m.IR = int64(x.value)
		case 2:
			m.Producer = string(x.data)
		case 7:
			if m.Graph != nil {
				return fmt.Errorf("two graphs; a model has one")
			}
			m.Graph, err = r.graph(x.data, 0)
		case 8:
			domain, version, err := opset(x.data)
			if err != nil {
				return fmt.Errorf("opset_import: %w", err)
			}
			m.Opsets[domain] = version
		case 14:
			key, value, err := entry(x.data)
			if err != nil {
				return fmt.Errorf("metadata_props: %w", err)
			}
			m.Metadata[key] = value
		case 25:
			var f Function
			err = fields(x.data, func(y field) error {
				switch y.number {
				case 1:
					f.Name = string(y.data)
				case 10:
					f.Domain = string(y.data)
				}
				return nil
			})
			m.Functions = append(m.Functions, f)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case m.Graph == nil:
		return nil, fmt.Errorf("there is no graph: this is not an ONNX file")
	case len(m.Opsets) == 0:
		return nil, fmt.Errorf("there is no opset_import: this is not an ONNX file")
	}
	return m, nil
}

func opset(data []byte) (domain string, version int64, err error) {
	err = fields(data, func(x field) error {
		switch x.number {
		case 1:
			domain = string(x.data)
		case 2:
			version = int64(x.value)
		}
		return nil
	})
	if domain == "ai.onnx" {
		domain = ""
	}
	return domain, version, err
}

func entry(data []byte) (key, value string, err error) {
	err = fields(data, func(x field) error {
		switch x.number {
		case 1:
			key = string(x.data)
		case 2:
			value = string(x.data)
		}
		return nil
	})
	return key, value, err
}

func (r *reader) graph(data []byte, depth int) (*Graph, error) {
	if depth > MostDepth {
		return nil, fmt.Errorf("graphs lie in each other %d deep; %d is the most", depth, MostDepth)
	}
	g := &Graph{}
	err := fields(data, func(x field) error {
		switch x.number {
		case 1:
			if r.nodes++; r.nodes > MostNodes {
				return fmt.Errorf("more than %d nodes", MostNodes)
			}
			n, err := r.node(x.data, depth)
			if err != nil {
				return fmt.Errorf("node %d %q (%s): %w", len(g.Nodes), n.Name, n.Op, err)
			}
			g.Nodes = append(g.Nodes, n)
		case 2:
			g.Name = string(x.data)
		case 5:
			t, err := tensor(x.data)
			if err != nil {
				return fmt.Errorf("initializer %q: %w", t.Name, err)
			}
			g.Initializers = append(g.Initializers, t)
		case 11, 12:
			i, err := info(x.data)
			if err != nil {
				return fmt.Errorf("input or output %q: %w", i.Name, err)
			}
			if x.number == 11 {
				g.Inputs = append(g.Inputs, i)
			} else {
				g.Outputs = append(g.Outputs, i)
			}
		case 15:
			g.Sparse++
		}
		return nil
	})
	return g, err
}

func (r *reader) node(data []byte, depth int) (*Node, error) {
	n := &Node{Attributes: map[string]*Attribute{}}
	var attributes [][]byte
	err := fields(data, func(x field) error {
		switch x.number {
		case 1:
			n.Inputs = append(n.Inputs, string(x.data))
		case 2:
			n.Outputs = append(n.Outputs, string(x.data))
		case 3:
			n.Name = string(x.data)
		case 4:
			n.Op = string(x.data)
		case 5:
			attributes = append(attributes, x.data)
		case 7:
			n.Domain = string(x.data)
		}
		return nil
	})
	if n.Domain == "ai.onnx" {
		n.Domain = ""
	}
	for _, data := range attributes {
		if err != nil {
			break
		}
		a := &Attribute{}
		if err = r.attribute(a, data, depth); err != nil {
			err = fmt.Errorf("attribute %q: %w", a.Name, err)
		}
		n.Attributes[a.Name] = a
	}
	return n, err
}

func (r *reader) attribute(a *Attribute, data []byte, depth int) error {
	return fields(data, func(x field) (err error) {
		switch x.number {
		case 1:
			a.Name = string(x.data)
		case 2:
			if x.wire != fixed32 {
				return fmt.Errorf("f is of wire type %d, not of a float's", x.wire)
			}
			f, _ := x.floats(nil)
			a.Float = f[0]
		case 3:
			a.Int = int64(x.value)
		case 4:
			a.Text = x.data
		case 5:
			a.Tensor, err = tensor(x.data)
		case 6:
			a.Graph, err = r.graph(x.data, depth+1)
		case 7:
			a.Floats, err = x.floats(a.Floats)
		case 8:
			a.Ints, err = x.integers(a.Ints)
		case 9:
			a.Strings = append(a.Strings, x.data)
		case 20:
			a.Type = int64(x.value)
		case 21:
			a.Ref = string(x.data)
		case 22, 23:
			a.Sparse = true
		}
		return err
	})
}

func info(data []byte) (i Info, err error) {
	err = fields(data, func(x field) error {
		switch x.number {
		case 1:
			i.Name = string(x.data)
		case 2:
			return fields(x.data, func(y field) error {
				if y.number != 1 { // a sequence, a map, an optional
					return nil
				}
				return fields(y.data, func(z field) error {
					switch z.number {
					case 1:
						i.Type = int32(z.value)
					case 2:
						i.Known = true
						return fields(z.data, func(d field) error {
							if d.number != 1 {
								return nil
							}
							if len(i.Dims) >= mostRank {
								return fmt.Errorf("more than %d axes", mostRank)
							}
							dim, err := dim(d.data)
							i.Dims = append(i.Dims, dim)
							return err
						})
					}
					return nil
				})
			})
		}
		return nil
	})
	return i, err
}

func dim(data []byte) (d Dim, err error) {
	err = fields(data, func(x field) error {
		switch x.number {
		case 1:
			d.Length, d.Fixed = int64(x.value), true
		case 2:
			d.Name = string(x.data)
		}
		return nil
	})
	return d, err
}

// ReadTensor is the tensor of a .pb file, the form of the official test data.
func ReadTensor(data []byte) (*Tensor, error) { return tensor(data) }

func tensor(data []byte) (*Tensor, error) {
	t := &Tensor{}
	err := fields(data, func(x field) (err error) {
		switch x.number {
		case 1:
			if t.Dims, err = x.integers(t.Dims); err == nil && len(t.Dims) > mostRank {
				err = fmt.Errorf("%d axes; %d is the most", len(t.Dims), mostRank)
			}
		case 2:
			t.Type = int32(x.value)
		case 3:
			t.Segment = true
		case 4:
			t.Floats, err = x.floats(t.Floats)
		case 5, 7, 11:
			t.Ints, err = x.integers(t.Ints)
		case 6:
			if t.Strings = append(t.Strings, x.data); len(t.Strings) > mostTexts {
				err = fmt.Errorf("more than %d texts", mostTexts)
			}
		case 8:
			t.Name = string(x.data)
		case 9:
			t.Raw, t.HasRaw = x.data, true
		case 10:
			t.Doubles, err = x.doubles(t.Doubles)
		case 13:
			key, value, err := entry(x.data)
			if err != nil {
				return fmt.Errorf("external_data: %w", err)
			}
			if t.External == nil {
				t.External = map[string]string{}
			}
			t.External[key] = value
		case 14:
			t.Outside = x.value == 1
		}
		return err
	})
	return t, err
}
