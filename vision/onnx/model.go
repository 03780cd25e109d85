package onnx

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/vision/onnx/proto"
)

// A Backend computes on the host: cpu's and ref's.
type Backend interface {
	kernels.Backend
	kernels.Depthwiser
}

// Options say how a model runs.
type Options struct {
	Backend Backend // of host memory; products and plain arithmetic run on it
	Threads int     // of other operators; 0: as many as there are processors
	Limits  Limits  // 0: the default
}

// A Model is an ONNX file that can run. Any goroutine may run it; runs wait for each other.
type Model struct {
	name      string
	backend   Backend
	threads   int
	limits    Limits
	opset     int
	graph     *graph
	constants map[string]*Tensor
	packed    map[*Tensor]*weights // of convolutions and products
	file      *proto.Model
	bytes     int64 // of the file, and those beside it
	turn      sync.Mutex
	pool      map[int][][]float32
	peak      int64
	watch     func(n *node, t *Tensor) // for tests
}

// A graph is nodes that can run.
type graph struct {
	inputs      []Info
	outputs     []Info
	outputNames []string
	nodes       []*node
	constants   map[string]*Tensor // of a graph within a node
	free        []string           // values of the graphs around it that it reads
}

// A node is one use of an operator.
type node struct {
	index           int
	name, op        string
	inputs, outputs []string
	attributes      map[string]*proto.Attribute
	graphs          map[string]*graph
	operator        operator
	last            []string        // values that no later node reads
	act             kernels.UnaryOp // computed with a convolution
	residual        bool            // a convolution's fourth input is added to its result
}

func (n *node) String() string { return fmt.Sprintf("node %d %q (%s)", n.index, n.name, n.op) }

// An Info is an input or an output as the file declares it.
type Info struct {
	Name  string
	Type  Type
	Shape []int    // -1: of any length
	Names []string // of lengths that the file leaves open
	Known bool     // whether a shape is declared
}

func (i Info) String() string {
	var dims []string
	for k, d := range i.Shape {
		switch {
		case d >= 0:
			dims = append(dims, strconv.Itoa(d))
		case i.Names[k] != "":
			dims = append(dims, i.Names[k])
		default:
			dims = append(dims, "?")
		}
	}
	if !i.Known {
		dims = []string{"..."}
	}
	return fmt.Sprintf("%s %v[%s]", i.Name, i.Type, strings.Join(dims, ","))
}

// Accepts is the error of a tensor that the declaration rules out.
func (i Info) Accepts(t *Tensor) error {
	n, err := checkedVolume(t.Shape)
	if err != nil {
		return err
	}
	if have := len(t.F) + len(t.D) + len(t.I) + len(t.S); have != n {
		return fmt.Errorf("%v holds %d elements", t, have)
	}
	fits := i.Type == 0 || i.Type == t.Type
	if i.Known {
		fits = fits && len(i.Shape) == len(t.Shape)
		for k := 0; fits && k < len(i.Shape); k++ {
			fits = i.Shape[k] < 0 || i.Shape[k] == t.Shape[k]
		}
	}
	if !fits {
		return fmt.Errorf("%v; the model takes %v", t, i)
	}
	return nil
}

// Open reads a file and all that it needs.
func Open(path string, o Options) (*Model, error) {
	limits := o.Limits.filled()
	data, err := readFile(path, 0, -1, limits.File)
	if err != nil {
		return nil, err
	}
	return parse(path, data, o, filepath.Dir(path))
}

// Parse is Open of a file's bytes. Tensors in other files are refused.
func Parse(name string, data []byte, o Options) (*Model, error) { return parse(name, data, o, "") }

func parse(name string, data []byte, o Options, folder string) (*Model, error) {
	if o.Backend == nil {
		return nil, errors.New("onnx: no backend")
	}
	file, err := proto.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := &Model{name: name, backend: o.Backend, threads: o.Threads, limits: o.Limits.filled(), file: file, constants: map[string]*Tensor{},
		packed: map[*Tensor]*weights{}, bytes: int64(len(data))}
	if err := m.build(file, &reader{folder: folder, left: m.limits.File, model: m}); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file.Graph = nil // its tensors are ours now
	return m, nil
}

// Known opsets of the default domain.
const (
	FirstOpset = 7
	LastOpset  = 28
)

func (m *Model) build(file *proto.Model, r *reader) error {
	version, ok := file.Opsets[""]
	if !ok {
		version = LastOpset // of a file of other domains alone, whose nodes are refused by name
	}
	if version < 1 || version > LastOpset {
		return fmt.Errorf("its opset is %d; known are %d to %d", version, FirstOpset, LastOpset)
	}
	m.opset = int(version)
	g, err := r.graph(file.Graph, map[string]bool{})
	if err != nil {
		return err
	}
	m.graph, m.constants = g, g.constants
	if err := m.fold(); err != nil {
		return err
	}
	m.fuse()
	m.trim()
	lifetimes(m.graph)
	return nil
}

// trim drops constants that nothing reads.
func (m *Model) trim() {
	read := map[string]bool{}
	for _, n := range m.graph.nodes {
		for _, name := range n.inputs {
			read[name] = true
		}
		for _, g := range n.graphs {
			for _, name := range g.free {
				read[name] = true
			}
		}
	}
	for _, name := range m.graph.outputNames {
		read[name] = true
	}
	maps.DeleteFunc(m.constants, func(name string, _ *Tensor) bool { return !read[name] })
}

// A reader turns the file's messages into graphs.
type reader struct {
	folder string
	left   int64 // bytes that files beside the model may have
	model  *Model
}

// graph checks a graph: every value is written once, before it is read.
func (r *reader) graph(p *proto.Graph, around map[string]bool) (*graph, error) {
	g := &graph{constants: map[string]*Tensor{}}
	if p.Sparse > 0 {
		return nil, fmt.Errorf("graph %q has sparse initializers, which are not supported", p.Name)
	}
	known := maps.Clone(around)
	own := map[string]bool{}
	define := func(name string) error {
		if own[name] {
			return fmt.Errorf("two values have the name %q", name)
		}
		own[name], known[name] = true, true
		return nil
	}
	for _, t := range p.Initializers {
		v, err := r.tensor(t)
		if err != nil {
			return nil, fmt.Errorf("initializer %q: %w", t.Name, err)
		}
		if err := define(t.Name); err != nil {
			return nil, err
		}
		g.constants[t.Name] = v
	}
	for _, i := range p.Inputs {
		if _, ok := g.constants[i.Name]; !ok {
			if err := define(i.Name); err != nil {
				return nil, err
			}
			g.inputs = append(g.inputs, infoOf(i))
		}
	}
	outer := map[string]bool{}
	read := func(name string) {
		if !own[name] && !outer[name] {
			outer[name] = true
			g.free = append(g.free, name)
		}
	}
	for i, n := range p.Nodes {
		out := &node{index: i, name: n.Name, op: n.Op, inputs: n.Inputs, outputs: n.Outputs, attributes: n.Attributes, graphs: map[string]*graph{}}
		err := func() error {
			op, err := r.model.find(n.Domain, n.Op)
			if err != nil {
				return err
			}
			out.operator = op
			if len(n.Inputs) < op.least || len(n.Inputs) > op.most {
				return fmt.Errorf("it has %d inputs; the operator has %s", len(n.Inputs), op.arity())
			}
			if len(n.Outputs) == 0 {
				return errors.New("it has no output")
			}
			for _, name := range n.Inputs {
				if name == "" {
					continue
				}
				if !known[name] {
					return fmt.Errorf("no node before it writes its input %q", name)
				}
				read(name)
			}
			for key, a := range n.Attributes {
				if a.Sparse {
					return fmt.Errorf("attribute %q is sparse, or a type, which is not supported", key)
				}
				if a.Graph != nil {
					inner, err := r.graph(a.Graph, known)
					if err != nil {
						return fmt.Errorf("graph %q: %w", key, err)
					}
					out.graphs[key] = inner
					for _, name := range inner.free {
						read(name)
					}
				}
				if a.Tensor != nil {
					v, err := r.tensor(a.Tensor)
					if err != nil {
						return fmt.Errorf("attribute %q: %w", key, err)
					}
					out.setConstant(key, v)
				}
			}
			for _, name := range n.Outputs {
				if name == "" {
					continue
				}
				if err := define(name); err != nil {
					return err
				}
			}
			return nil
		}()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out, err)
		}
		g.nodes = append(g.nodes, out)
	}
	for _, o := range p.Outputs {
		if !known[o.Name] {
			return nil, fmt.Errorf("no node writes the output %q", o.Name)
		}
		read(o.Name)
		g.outputs = append(g.outputs, infoOf(o))
		g.outputNames = append(g.outputNames, o.Name)
	}
	lifetimes(g)
	return g, nil
}

// setConstant keeps the tensor of an attribute as a graph without nodes has it.
func (n *node) setConstant(key string, v *Tensor) {
	n.graphs[key] = &graph{constants: map[string]*Tensor{"": v}}
}

// constant is the tensor of an attribute.
func (c *call) constant(key string) *Tensor {
	if g := c.node.graphs[key]; g != nil {
		return g.constants[""]
	}
	return nil
}

// find is an operator of the file's opset.
func (m *Model) find(domain, name string) (operator, error) {
	for _, f := range m.file.Functions {
		if f.Domain == domain && f.Name == name {
			return operator{}, fmt.Errorf("the file defines the operator itself, by a function, which is not supported; export the model with its functions inlined")
		}
	}
	op, ok := operators()[name]
	switch {
	case domain != "" || !ok:
		if domain == "" {
			domain = "ai.onnx"
		}
		return operator{}, fmt.Errorf("the runner has no operator %s of %s", name, domain)
	case m.opset < op.since:
		return operator{}, fmt.Errorf("opset %d has no %s; it came with opset %d", m.opset, name, op.since)
	}
	return op, nil
}

func infoOf(p proto.Info) Info {
	i := Info{Name: p.Name, Type: Type(p.Type), Known: p.Known, Shape: []int{}}
	for _, d := range p.Dims {
		n := -1
		if d.Fixed && d.Length >= 0 {
			n = int(d.Length)
		}
		i.Shape, i.Names = append(i.Shape, n), append(i.Names, d.Name)
	}
	return i
}

// lifetimes notes the last use of every value.
func lifetimes(g *graph) {
	used := map[string]bool{}
	for _, name := range g.outputNames {
		used[name] = true
	}
	written := map[string]bool{}
	for _, n := range g.nodes {
		for _, name := range n.outputs {
			written[name] = true
		}
	}
	for _, in := range g.inputs {
		written[in.Name] = true
	}
	for _, n := range slices.Backward(g.nodes) {
		n.last = nil
		names := slices.Concat(n.inputs, n.outputs)
		for _, inner := range n.graphs {
			names = append(names, inner.free...)
		}
		for _, name := range names {
			if name != "" && written[name] && !used[name] {
				used[name] = true
				n.last = append(n.last, name)
			}
		}
	}
}

// tensor is a constant, from the file itself or from one beside it.
func (r *reader) tensor(p *proto.Tensor) (*Tensor, error) {
	if p.Outside {
		data, err := r.external(p)
		if err != nil {
			return nil, err
		}
		p.Raw, p.HasRaw = data, true
	}
	return Decode(p)
}

// external is the bytes of a tensor in a file within the model's folder.
func (r *reader) external(p *proto.Tensor) ([]byte, error) {
	location := p.External["location"]
	if r.folder == "" {
		return nil, fmt.Errorf("its numbers lie in another file, %q, and the model was read without a folder", location)
	}
	if !filepath.IsLocal(location) {
		return nil, fmt.Errorf("its numbers lie in %q, outside the model's folder", location)
	}
	var offset, length int64 = 0, -1
	for key, to := range map[string]*int64{"offset": &offset, "length": &length} {
		if text := p.External[key]; text != "" {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("%s of its external data is %q", key, text)
			}
			*to = v
		}
	}
	root, err := os.OpenRoot(r.folder) // no link leads out of it
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("external data: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("its external data %q is not a regular file", location)
	}
	if length < 0 {
		length = max(info.Size()-offset, 0)
	}
	if offset > info.Size() || length > info.Size()-offset {
		return nil, fmt.Errorf("its external data are %d bytes at %d of %q, which has %d", length, offset, location, info.Size())
	}
	if r.left -= length; r.left < 0 {
		return nil, fmt.Errorf("external data are more than %d bytes", r.model.limits.File)
	}
	f, err := root.Open(location)
	if err != nil {
		return nil, err
	}
	data := make([]byte, length)
	_, err = f.ReadAt(data, offset)
	r.model.bytes += length
	return data, errors.Join(err, f.Close())
}

// readFile is the bytes of a regular file.
func readFile(path string, offset, length, most int64) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if length < 0 {
		length = info.Size() - offset
	}
	if length > most {
		return nil, fmt.Errorf("%s has %d bytes; %d are the most", path, length, most)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(f, offset, length), data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Inputs are the model's inputs that a run must have.
func (m *Model) Inputs() []Info { return m.graph.inputs }

// Outputs are the model's outputs.
func (m *Model) Outputs() []Info { return m.graph.outputs }

// Metadata are the file's own notes.
func (m *Model) Metadata() map[string]string { return m.file.Metadata }

// Opset is the version of the default domain's operators.
func (m *Model) Opset() int { return m.opset }

// Producer is the program that wrote the file.
func (m *Model) Producer() string { return m.file.Producer }

// Bytes is the size of the file and of the tensors' files beside it.
func (m *Model) Bytes() int64 { return m.bytes }

// Operators counts the nodes of each operator, as they run after constants are folded.
func (m *Model) Operators() map[string]int {
	count := map[string]int{}
	for _, n := range m.graph.nodes {
		count[n.op]++
	}
	return count
}
