package cuda

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/cuda/blas"
)

// What computed a run's products and attention of bf16 is kept with the run, so that it goes on with the same bits
// or not at all: our own kernels, or the library's version and the algorithm of each shape.

// recorded is a backend's choices as they are kept.
type recorded struct {
	By     string          `json:"by"` // "own", or "cublaslt"
	Name   string          `json:"version,omitempty"`
	Device string          `json:"device,omitempty"` // the model: algorithms are its own
	Shapes []recordedShape `json:"shapes,omitempty"`
	// Attention, and Own, which is products of our own kernels, are attentionByHopper and productsByHopper where those
	// for Hopper compute them, and absent for mma.sync.
	Attention string `json:"attention,omitempty"`
	Own       string `json:"own,omitempty"`
	// Adapters is "wgmma" where the products of adapters are terms in the sums of others, and absent where they are
	// products of their own.
	Adapters string `json:"adapters,omitempty"`
}

// recordedShape is a choice. A weight is [N,K], a turned one [K,N].
type recordedShape struct {
	N         int64  `json:"n"`
	K         int64  `json:"k"`
	Turned    bool   `json:"turned,omitempty"`
	Algorithm string `json:"algorithm,omitempty"` // the library's 64 bytes; none: our own kernel
	Why       string `json:"why,omitempty"`
}

// Choices is a record, in JSON, of what was chosen so far, for Choose of the backend that goes on
// with the work: nil in exact mode, where nothing is chosen. news are sentences for people, each once.
func (b *Backend) Choices() (record []byte, news []string, err error) {
	if b.exact {
		return nil, nil, nil
	}
	r := recorded{By: "own"}
	if p := b.products; p != nil {
		r = recorded{By: "cublaslt", Name: blas.VersionText(p.Version), Device: b.device.Name}
		p.lock.Lock()
		defer p.lock.Unlock()
		all := maps.Clone(p.recorded)
		maps.Copy(all, p.chosen)
		for _, c := range all {
			s := recordedShape{N: c.N, K: c.K, Turned: c.Turned, Why: c.why}
			if c.algorithm != nil {
				s.Algorithm = c.algorithm.Text()
			}
			r.Shapes = append(r.Shapes, s)
		}
		slices.SortFunc(r.Shapes, func(x, y recordedShape) int {
			return strings.Compare(fmt.Sprintf("%20d%20d%t", x.N, x.K, x.Turned), fmt.Sprintf("%20d%20d%t", y.N, y.K, y.Turned))
		})
		news, p.news = p.news, nil
	}
	r.Attention, news = b.hopper.attention.record("attention goes", attentionByHopper, news)
	r.Own, news = b.hopper.products.record("products of our own go", productsByHopper, news)
	if b.products == nil {
		r.Adapters, news = b.hopper.pairs.record("products of adapters go", adaptersByHopper, news)
	}
	record, err = json.MarshalIndent(r, "", "  ")
	return append(record, '\n'), news, err
}

// Choose takes a record's choices, for all ranks, before anything is computed. The error says what stands
// in the way of going on with the same bits.
func (b *Backend) Choose(record []byte) error {
	var r recorded
	if err := json.Unmarshal(record, &r); err != nil {
		return fmt.Errorf("the record of products: %w", err)
	}
	for _, rank := range b.agreed.ranks {
		if err := rank.take(&r); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) take(r *recorded) error {
	if err := b.chooseFamily("attention so far was", attentionByHopper, r.Attention, &b.hopper.attention); err != nil {
		return err
	}
	if err := b.chooseFamily("products of our own so far were", productsByHopper, r.Own, &b.hopper.products); err != nil {
		return err
	}
	if err := b.chooseFamily("products of adapters so far were", adaptersByHopper, r.Adapters, &b.hopper.pairs); err != nil {
		return err
	}
	if r.By == "cublaslt" && b.without == ownInstead {
		if err := b.libraryAfterAll(); err != nil {
			return fmt.Errorf("the products so far were computed by cuBLASLt %s: %w", r.Name, err)
		}
	}
	switch {
	case r.By == "own" && b.exact, r.By == "own" && b.mode.products == "lt":
		return fmt.Errorf("the products so far were computed by our own kernels; %s=own goes on with their bits", ModeVariable)
	case r.By == "own":
		b.withoutLibrary("the work that goes on was begun with them")
		return nil
	case r.By != "cublaslt":
		return fmt.Errorf("the record of products names %q, which is unknown", r.By)
	case b.products == nil:
		return fmt.Errorf("the products so far were computed by cuBLASLt %s, and now would be by our own kernels, with other bits: %s", r.Name, b.without)
	case r.Name != blas.VersionText(b.products.Version):
		return fmt.Errorf("the products so far were computed by cuBLASLt %s; this one (%s) is %s, with other bits; %s can name the other", r.Name, b.products.Path, blas.VersionText(b.products.Version), blas.LibraryVariable)
	case r.Device != b.device.Name:
		return fmt.Errorf("the products so far were computed on %s; this device is %s, where the library's algorithms are others", r.Device, b.device.Name)
	}
	for _, s := range r.Shapes {
		c := &choice{Shape: blas.Shape{N: s.N, K: s.K, Turned: s.Turned}, why: s.Why}
		if s.Algorithm != "" {
			a, err := blas.ReadAlgorithm(s.Algorithm)
			if err != nil {
				return fmt.Errorf("the record of products: weights %s: %w", c.Shape, err)
			}
			c.algorithm = &a
		}
		b.products.recorded[c.Shape] = c
	}
	return nil
}

// What the kernels for Hopper are called in a record. Their products were called productsBefore while activations in
// the epilogue had the bits of package ref.
const (
	attentionByHopper = "wgmma"
	productsByHopper  = "wgmma,ex2.approx"
	productsBefore    = "wgmma"
	adaptersByHopper  = "wgmma"
)

// record is how a family is kept with a run, and what is to be said of it once.
func (f *family) record(what, name string, news []string) (by string, all []string) {
	if f.use {
		return name, news
	}
	if f.why != "" && !f.told {
		f.told = true
		news = append(news, what+" by mma.sync: "+f.why)
	}
	return "", news
}

// chooseFamily takes what computed a run's attention, or products; name is what the kernels for Hopper are called.
func (b *Backend) chooseFamily(what, name, by string, f *family) error {
	switch {
	case b.exact: // which goes on with no record's bits, and says so
	case by == "" && f.use:
		f.use, f.why = false, "the work that goes on was begun with it"
	case by == name && f.use, by == "":
	case by == name && f.why == "":
		return fmt.Errorf("the %s computed by the kernels for compute capability 9.0, and this device is of %d.%d: there would be other bits", what, b.device.Major, b.device.Minor)
	case by == name:
		return fmt.Errorf("the %s computed by wgmma, and now would be by mma.sync, with other bits: %s", what, f.why)
	case name == productsByHopper && by == productsBefore:
		return fmt.Errorf("the %s computed by wgmma with exact activations, and now activations would be by ex2.approx, "+
			"with other bits\nhint: the version of darkroom that began the run goes on with it", what)
	default:
		return fmt.Errorf("the record of products says that the %s computed by %q, which is unknown", what, by)
	}
	return nil
}

// withoutLibrary leaves all products to our own kernels, before anything is computed.
func (b *Backend) withoutLibrary(why string) {
	if p := b.products; p != nil {
		b.products, b.without = nil, why
		b.must("Choose", p.close)
	}
}
