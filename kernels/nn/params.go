package nn

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Source is where parameters are read: a safetensors.Set or File.
type Source interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, error)
}

// Options say how parameters come to be.
type Options struct {
	Pool *tensor.Pool
	Math kernels.Math // the arithmetic that frozen weights are packed for
	// Source may be nil: parameters are then drawn, each by Key and its name. It must stay
	// open while adapters are merged.
	Source Source
	Key    rng.Key
	Train  []string // regular expressions that match the whole name of what is trained
	Blank  []string // of what is drawn though Source has it: layers that are learned from nothing
	// Like is, on a dry backend without a source, the type that a file would have.
	Like safetensors.DType
	// Compressed are the headers of matrices that such a file would have compressed; nil: none.
	Compressed func(safetensors.Info) (quant.Header, bool)
	// Home is where frozen matrices lie while no product reads them; Source must stay open. Ring holds them meanwhile, of
	// all networks that compute on a device one; nil: one of the network's own.
	Home Home
	Ring *autograd.Ring
	// Stock holds matrices whose home is Host or Ranks, for all devices of a run; nil: one of the network's own. Networks
	// that call their weights alike share them; "": they share none.
	Stock  *Stock
	Called string
	// Values are those of another network's parameters, by their names, in F32: vectors and what is trained share them.
	Values map[string]*tensor.Tensor
}

// Params hands out named parameters below a prefix.
type Params struct {
	root   *root
	prefix string
	zero   bool
}

// root is what all Params of a model share.
type root struct {
	Options
	train    []*regexp.Regexp
	blank    []*regexp.Regexp
	entries  map[string]*entry
	order    []*entry
	modules  []module // in the order they were made
	buffers  []*Buffer
	fixed    []*autograd.Param // what models made of buffers
	errs     []error           // the first mistakes
	reads    chan struct{}     // those of them that are read now
	known    []*regexp.Regexp  // stored names that the model does not read
	stored   []string          // names in the source
	mistakes int
	has      map[string]bool
}

// entry is one parameter.
type entry struct {
	name       string
	stored     []int // its shape on disk
	param      *autograd.Param
	init       initial
	turned     bool     // stored as [in, out]
	compressed bool     // and unpacked for products
	derived    bool     // from a stored tensor: no source has it
	frames     int      // of a convolution's kernel over time; 0: none
	of         *entry   // the tensor that this is a part of (experts.go); nil: it is one
	parts      []*entry // of a tensor that is several parameters
}

// module is a layer that an adapter can sit on.
type module struct {
	name    string
	linear  *Linear
	conv    *Conv
	experts *Experts
}

// New is the root of a model's parameters.
func New(o Options) (*Params, error) {
	r := &root{Options: o, entries: map[string]*entry{}, has: map[string]bool{}, reads: make(chan struct{}, mostReadings)}
	if r.Ring == nil {
		r.Ring = new(autograd.Ring)
	}
	if r.Home == Host || r.Home == Ranks {
		if r.Stock == nil {
			r.Stock = NewStock(r.Pool.Backend())
		}
		r.Home = r.Stock.Home(r.Home)
	}
	if o.Source != nil {
		r.stored = o.Source.Names()
		for _, n := range r.stored {
			r.has[n] = true
		}
	}
	var err error
	if r.train, err = wholes(o.Train); err != nil {
		return nil, fmt.Errorf("which parameters to train: %w", err)
	}
	if r.blank, err = wholes(o.Blank); err != nil {
		return nil, fmt.Errorf("which parameters to draw: %w", err)
	}
	return &Params{root: r}, nil
}

func wholes(patterns []string) (all []*regexp.Regexp, err error) {
	for _, t := range patterns {
		re, err := whole(t)
		if err != nil {
			return nil, err
		}
		all = append(all, re)
	}
	return all, nil
}

// whole is a pattern that must match all of a name.
func whole(pattern string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + pattern + ")$") }

// Sub is the parameters below a name: p.Sub("transformer_blocks.0").
func (p *Params) Sub(name string) *Params {
	return &Params{root: p.root, prefix: p.name(name) + ".", zero: p.zero}
}

// At is Sub("name.i").
func (p *Params) At(name string, i int) *Params { return p.Sub(fmt.Sprintf("%s.%d", name, i)) }

// Zeroed hands out parameters that are zero where they are drawn: the layers that a fresh
// model starts without.
func (p *Params) Zeroed() *Params { return &Params{root: p.root, prefix: p.prefix, zero: true} }

func (p *Params) name(name string) string { return p.prefix + name }

// Has reports whether the source has a tensor of this name: for parts that a family's
// models have or have not.
func (p *Params) Has(name string) bool { return p.root.has[p.name(name)] }

// Ignore names stored tensors (regular expressions of whole names) that the model does
// not read, so that Check does not report them.
func (p *Params) Ignore(patterns ...string) {
	for _, s := range patterns {
		re, err := whole(regexp.QuoteMeta(p.prefix) + s)
		if err != nil {
			p.fail(fmt.Errorf("nn: Ignore: %w", err))
			continue
		}
		p.root.known = append(p.root.known, re)
	}
}

func (p *Params) fail(err error) {
	if p.root.mistakes++; p.root.mistakes <= most {
		p.root.errs = append(p.root.errs, err)
	}
}

// most is how many mistakes of a kind Check spells out.
const most = 20

// Check reports every parameter that is missing or has another shape, every stored
// tensor that was never asked for, and every pattern of Train that matched nothing.
func (p *Params) Check() error {
	r := p.root
	errs := slices.Clone(r.errs)
	if n := r.mistakes - len(errs); n > 0 {
		errs = append(errs, fmt.Errorf("and %d more that are missing or misshapen", n))
	}
	var left []string
	for _, name := range r.stored {
		if r.entries[name] == nil && !slices.ContainsFunc(r.known, func(k *regexp.Regexp) bool { return k.MatchString(name) }) {
			left = append(left, name)
		}
	}
	for i, name := range left {
		if i == most {
			errs = append(errs, fmt.Errorf("and %d more that the model does not have", len(left)-most))
			break
		}
		errs = append(errs, fmt.Errorf("%s: the model has no such parameter", name))
	}
	errs = append(errs, r.unmatched("train", r.Train, r.train)...)
	return errors.Join(append(errs, r.unmatched("blank", r.Blank, r.blank)...)...)
}

// unmatched are the patterns of a key that match no parameter.
func (r *root) unmatched(key string, patterns []string, compiled []*regexp.Regexp) (errs []error) {
	for i, re := range compiled {
		if !slices.ContainsFunc(r.order, func(e *entry) bool { return re.MatchString(e.asStored()) }) {
			errs = append(errs, fmt.Errorf("%s: %q matches no parameter%s", key, patterns[i], nearHint(patterns[i], r.names())))
		}
	}
	return errs
}

func (r *root) names() []string {
	var all []string
	for _, e := range r.order {
		all = append(all, e.name)
	}
	return all
}

// All is every parameter in the order the model asked for them, adapters last.
func (p *Params) All() []*autograd.Param {
	var all []*autograd.Param
	for _, e := range p.root.order {
		all = append(all, e.param)
	}
	return all
}

// Trained is the trained parameters.
func (p *Params) Trained() []*autograd.Param {
	return slices.DeleteFunc(p.All(), func(w *autograd.Param) bool { return !w.Trained })
}

// ZeroGrad forgets all gradients.
func (p *Params) ZeroGrad() {
	for _, w := range p.All() {
		w.ZeroGrad()
	}
}

// Free gives all memory back.
func (p *Params) Free() {
	for _, w := range p.All() {
		w.Free()
	}
	for _, w := range p.root.fixed {
		w.Free()
	}
	p.root.order, p.root.fixed, p.root.entries = nil, nil, map[string]*entry{}
}

// nearHint names what was perhaps meant: the names whose ends differ least from what was
// asked for.
func nearHint(asked string, names []string) string {
	type scored struct {
		name string
		d    int
	}
	var all []scored
	for _, n := range names {
		end := n
		if asked != "" && len(end) > len(asked) { // the end of the name after a dot
			if at := strings.LastIndexByte(end[:len(end)-len(asked)+1], '.'); at >= 0 {
				end = end[at+1:]
			}
		}
		if d := distance(asked, end); d <= max(2, len(asked)/3) {
			all = append(all, scored{n, d})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.d, b.d) })
	var near []string
	for i, s := range all {
		if i == 3 {
			break
		}
		near = append(near, s.name)
	}
	if len(near) == 0 {
		if len(names) == 0 {
			return ""
		}
		return " (there are names like " + names[len(names)/2] + ")"
	}
	return " (near: " + strings.Join(near, ", ") + ")"
}

// distance is Levenshtein's: the fewest letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, diagonal+1)
			if a[i] == b[j] {
				next = diagonal
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
