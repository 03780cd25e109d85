package choice

import (
	"maps"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// A Row is the times of one family in one arithmetic.
type Row struct {
	Family string             `json:"family"` // products, attention or convolutions
	Math   string             `json:"math"`   // f32 or bf16
	MS     map[string]float64 `json:"ms"`     // by path: the sum over shapes of the best times, of one thread
}

// Table has a row for each family and arithmetic. It is empty where a CPU has no choice.
type Table []Row

// Names of families and arithmetics, in the order of tables.
var (
	families = [...]string{"products", "attention", "convolutions"}
	maths    = [...]string{kernels.MathF32: "f32", kernels.MathBF16: "bf16"}
)

// gain is the share of the time that another path must save to be chosen in place of the best by features: times of
// one path differ by some hundredths from one measurement to the next.
const gain = 0.05

// Fastest is the row's path: the best by features, unless another one saves more than gain.
func (r Row) Fastest(best isa.Path) isa.Path {
	fastest, least := best, r.MS[best.String()]*(1-gain)
	for _, name := range slices.Sorted(maps.Keys(r.MS)) {
		p, err := isa.Parse(name)
		if ms := r.MS[name]; err == nil && ms > 0 && slices.Contains(isa.Paths(), p) && (ms < least || r.MS[best.String()] == 0) {
			fastest, least = p, ms
		}
	}
	return fastest
}

// Mix is the fastest path of each family; best is that of the others.
func (t Table) Mix(best isa.Path) *cpu.Mix {
	mix := cpu.Options{Path: best}.Paths()
	for _, r := range t {
		m := slices.Index(maths[:], r.Math)
		if m < 0 {
			continue
		}
		switch r.Family {
		case families[0]:
			mix.Products[m] = r.Fastest(best)
		case families[1]:
			mix.Attention[m] = r.Fastest(best)
		case families[2]:
			mix.Convolutions[m] = r.Fastest(best)
		}
	}
	return &mix
}
