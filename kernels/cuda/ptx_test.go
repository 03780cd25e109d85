//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/emulators/ptxtest"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// More cases of the tests below, and fewer operations (make ptx).
var (
	ptxMillions = flag.Float64("ptx", 0, "millions of instructions of warps for each operation; 0: a few, and no Hopper")
	ptxOnly     = flag.String("ptx-only", "", "operations, with commas between; none: all")
)

// TestPTXExact holds the PTX that ships to ref, bit for bit.
func TestPTXExact(t *testing.T) {
	interpret(t, 80, "exact", func(kerneltest.Case) float64 { return 0 })
}

// TestPTXTensorCores holds products and attention by mma.sync near to ref.
func TestPTXTensorCores(t *testing.T) { interpret(t, 80, "own", kerneltest.TensorCores) }

// interpret runs the first cases of every operation on interpreted PTX, and says what that covers.
func interpret(t *testing.T, capability int, mode string, near func(kerneltest.Case) float64) {
	if testing.Short() {
		t.Skip("the image takes half a second to unpack")
	}
	millions := *ptxMillions
	if millions == 0 {
		millions = 0.03
	}
	d := ptxtest.New(capability)
	b, err := cuda.OpenOn(d, mode)
	if err != nil {
		t.Fatal(err, d.Last)
	}
	defer b.Close()
	if hopper := capability == 90; b.HopperRuns() != hopper || b.HopperMultiplies() != hopper {
		t.Fatalf("compute capability %d: %v; %v", capability, b, d.Last)
	}
	spent, ran, all := map[string]uint64{}, map[string]int{}, map[string]int{}
	last, before := "", d.Ran()
	only := *ptxOnly
	kerneltest.RunNear(t, b, func(c kerneltest.Case) float64 {
		spent[last], before = spent[last]+d.Ran()-before, d.Ran()
		if d.Last != nil {
			t.Error(d.Last)
		}
		d.Again()
		tolerance := near(c)
		if tolerance < 0 {
			return tolerance
		}
		all[c.Op]++
		asked := only == "" || slices.Contains(strings.Split(only, ","), c.Op)
		if !asked || float64(spent[c.Op]) > millions*1e6 {
			return -1
		}
		last = c.Op
		ran[c.Op]++
		return tolerance
	})
	if d.Last != nil {
		t.Error(d.Last)
	}
	report(t, d, ran, all)
}

// report says how many cases have run, and which of the kernels' instructions.
func report(t *testing.T, d *ptxtest.Device, ran, all map[string]int) {
	var cases []string
	n, of := 0, 0
	for _, op := range slices.Sorted(maps.Keys(all)) {
		n, of = n+ran[op], of+all[op]
		cases = append(cases, fmt.Sprintf("%s %d/%d", op, ran[op], all[op]))
	}
	names, places, have := 0, [2]int{}, d.Coverage()
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		c := have[name]
		places[0], places[1] = places[0]+c[0], places[1]+c[1]
		if c[0] > 0 {
			names++
		} else {
			missed = append(missed, name)
		}
	}
	t.Logf("%d of %d cases (%s)", n, of, strings.Join(cases, ", "))
	t.Logf("%d kernels; %d of %d instructions by name, %d of %d places; %.1f million instructions of warps",
		len(d.Kernels()), names, len(have), places[0], places[1], float64(d.Ran())/1e6)
	t.Logf("not run: %s", strings.Join(missed, " "))
}

// TestPTXHopper holds products and attention by wgmma, which the copy engine feeds, near to ref.
func TestPTXHopper(t *testing.T) {
	if *ptxMillions == 0 {
		t.Skip("a Hopper compares its kernels when it opens, eight seconds of a CPU: make ptx")
	}
	interpret(t, 90, "own", kerneltest.TensorCores)
}

// TestPTXHopperTrial: kernels on trial, which are asked for by name, and gradients of weights by wgmma.
func TestPTXHopperTrial(t *testing.T) {
	if *ptxMillions == 0 {
		t.Skip("a Hopper compares its kernels when it opens, some seconds of a CPU: make ptx")
	}
	interpret(t, 90, "own,trial", func(c kerneltest.Case) float64 {
		if strings.HasPrefix(c.Name, "segments/TN/bf16") || strings.HasPrefix(c.Name, "product/TN/bf16") || c.Op == "AttentionBackward" && strings.HasPrefix(c.Name, "bf16/") {
			return kerneltest.TensorCores(c)
		}
		return -1
	})
}

// A mistake is planted in a kernel's PTX: every place that the pattern finds, or the nth, is written otherwise. The
// double cannot see any in this text, of which it reads the kernels' names.
type mistake struct {
	what       string
	assembly   bool // it could stand in the inline assembly of src/device.h, which the double replaces
	at         plant
	find, with string
	nth        int
}

// A plant is a kernel with a case that runs it.
type plant struct{ mode, kernel, op, name string }

var (
	plantNT      = plant{"own", "product_nt_32", "Gemm", "product/NT/bf16/31x130x257"}
	plantNN      = plant{"own", "product_nn_32", "Gemm", "product/NN/bf16/31x130x257"}
	plantHeads   = plant{"own", "attention_tensor_64", "Attention", "bf16/f32/2x2x2x3x40"}
	plantSoftmax = plant{"exact", "softmax", "Softmax", "f32 5x63"}
	plantSums    = plant{"exact", "sum_rows", "SumRows", "f32 9x33"}
)

var mistakes = []mistake{
	{"a left fragment's row and column exchanged", true, plantNT, `(bf16.f32 \{[^}]*\},\{%r\d+),(%r\d+),(%r\d+),`,
		`$1,$3,$2,`, 0},
	{"a right fragment's halves exchanged", true, plantNN, `\{(%r\d+),(%r\d+)\},\{%f`, `{$2,$1},{%f`, 0},
	{"sums of two rows exchanged", true, plantNT, `(bf16.f32 \{%f\d+),(%f\d+),(%f\d+),`, `$1,$3,$2,`, 0},
	{"left and right operands exchanged", true, plantNN, `,\{(%r\d+),(%r\d+),(%r\d+),(%r\d+)\},\{(%r\d+),(%r\d+)\},`,
		`,{$5,$6,$3,$4},{$1,$2},`, 0},
	{"the sum before is left out", true, plantNT, `(\},\{%r\d+,%r\d+\}),\{%f\d+,%f\d+,%f\d+,%f\d+\};`,
		`$1,{0f00000000,0f00000000,0f00000000,0f00000000};`, 0},
	{"matrices turned that should not be", true, plantNT, `x4\.shared`, `x4.trans.shared`, 0},
	{"matrices not turned that should be", true, plantNN, `x4\.trans\.shared`, `x4.shared`, 0},
	{"two matrices of four exchanged", true, plantNT, `(b16 \{%r\d+),(%r\d+),(%r\d+),`, `$1,$3,$2,`, 0},
	{"a wait for one group too few", false, plantNT, `wait_group 3`, `wait_group 4`, 0},
	{"no wait for copies", false, plantNN, `cp\.async\.wait_group 3;`, ``, 0},
	{"a group that is not closed", false, plantHeads, `cp\.async\.commit_group;`, ``, 2},
	{"no barrier before what others copied is read", false, plantNT, `bar\.sync\s+0;`, ``, 0},
	{"no barrier between warps in attention", false, plantHeads, `bar\.sync\s+0;`, ``, 0},
	{"copies in part that are made whole", true, plantNT, `, 16, %r\d+;`, `, 16, 16;`, 0},
	{"copies to the piece beside", true, plantNT, `(shared\.global \[%r\d+)\]`, `$1+16]`, 0},
	{"the halves of two rounded numbers exchanged", true, plantHeads, `(bf16x2\.f32 %r\d+), (%f\d+), (%f\d+)`,
		`$1, $3, $2`, 0},
	{"a lane in place of a neighbour", false, plantHeads, `shfl\.sync\.bfly`, `shfl.sync.idx`, 0},
	{"lanes of half a warp alone exchange", false, plantSoftmax, `(bfly\.b32\s+\S+ \S+ \S+) \S+,`, `$1 15,`, 0},
	{"a wrong predicate", false, plantHeads, `(selp\.f32\s+%f\d+), (\S+), (\S+),`, `$1, $3, $2,`, 0},
	{"a quotient's operands exchanged", false, plantSoftmax, `(div\.rn\.ftz\.f32\s+%f\d+), (%f\d+), (%f\d+)`,
		`$1, $3, $2`, 0},
	{"another memory than the address is of", false, plantSums, `ld\.global\.f32`, `ld.shared.f32`, 0},
}

// TestPTXMistakes: with its text as it ships each kernel passes, and with a mistake planted it does not.
func TestPTXMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("the image takes half a second to unpack")
	}
	all := *ptxMillions > 0
	if !all {
		t.Logf("3 of %d mistakes; the others: make ptx", len(mistakes))
	}
	seen, whole := 0, map[plant]bool{}
	for i, m := range mistakes {
		if !all && i != 0 && i != 9 && i != 17 {
			continue
		}
		if !whole[m.at] && all {
			if err := runPlanted(t, ptxtest.New(80), m.at, func(s string) string { return s }); err != nil {
				t.Errorf("%s as it ships: %v", m.at.kernel, err)
			}
			whole[m.at] = true
		}
		err := runPlanted(t, ptxtest.New(80), m.at, func(s string) string { return plantedIn(t, s, m) })
		if err == nil {
			t.Errorf("%s in %s: not seen", m.what, m.at.kernel)
			continue
		}
		seen++
		t.Logf("%s in %s: %.160v", m.what, m.at.kernel, err)
	}
	t.Logf("%d seen", seen)
}

func plantedIn(t *testing.T, text string, m mistake) string {
	found := 0
	find := regexp.MustCompile(m.find)
	text = find.ReplaceAllStringFunc(text, func(s string) string {
		if found++; m.nth > 0 && found != m.nth {
			return s
		}
		return find.ReplaceAllString(s, m.with)
	})
	if found < max(m.nth, 1) {
		t.Fatalf("%s: %s has %d places of %s", m.what, m.at.kernel, found, m.find)
	}
	return text
}

// runPlanted holds a kernel whose text is changed to ref.
func runPlanted(t *testing.T, d *ptxtest.Device, at plant, edit func(kernel string) string) error {
	d.Edit = func(text string) string {
		from := strings.Index(text, ".visible .entry dk_"+at.kernel+"(")
		to := from + strings.Index(text[from:], "\n}\n")
		return text[:from] + edit(text[from:to]) + text[to:]
	}
	b, err := cuda.OpenOn(d, at.mode)
	if err != nil {
		t.Fatal(err, d.Last)
	}
	for _, c := range kerneltest.Cases() {
		if c.Op != at.op || c.Name != at.name {
			continue
		}
		near := 0.0
		if at.mode == "own" {
			near = kerneltest.TensorCores(c)
		}
		err := caught(func() error { return kerneltest.Hold(c, b, near) })
		if d.Kernels()["dk_"+at.kernel] == 0 && d.Last == nil {
			t.Fatalf("%s/%s runs %v, not %s", at.op, at.name, d.Kernels(), at.kernel)
		}
		if d.Last != nil {
			return d.Last
		}
		return err
	}
	t.Fatalf("there is no case %s/%s", at.op, at.name)
	return nil
}

// caught is f's error, or that of the backend's panic.
func caught(f func() error) (err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	return f()
}

// hopperMistakes are planted in all kernels of the image for compute capability 9.0, where the comparison that a
// backend makes when it opens runs them.
var hopperMistakes = []mistake{
	{"a wait for one batch of products too few", true, plant{}, `wgmma\.wait_group\.sync\.aligned 0`,
		`wgmma.wait_group.sync.aligned 1`, 0},
	{"no fence before products", true, plant{}, `wgmma\.fence\.sync\.aligned;`, ``, 0},
	{"no fence between stores and products", true, plant{}, `fence\.proxy\.async\.shared::cta;`, ``, 0},
	{"columns of a box exchanged", true, plant{}, `\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}\]`,
		`{$1, $3, $2, $4}]`, 0},
	{"an operand turned", true, plant{}, `1, 1, 0, 1; \}`, `1, 1, 0, 0; }`, 0},
	{"a promise of too few bytes", true, plant{}, `expect_tx\.shared::cta\.b64 _, (\[%r\d+\]), (%r\d+)`,
		`expect_tx.shared::cta.b64 _, $1, 64`, 0},
	{"no barrier between the lanes of a warp", false, plant{}, `bar\.warp\.sync\s[^;]*;`, ``, 0},
	{"a barrier that counts one arrival too many", true, plant{}, `(mbarrier\.init\.shared::cta\.b64 \[%r\d+\]), %r\d+`,
		`$1, 2`, 0},
}

// TestPTXHopperMistakes: the backend goes on without kernels that have a mistake, or not at all.
func TestPTXHopperMistakes(t *testing.T) {
	if *ptxMillions == 0 {
		t.Skip("up to eight seconds of a CPU for each of them: make ptx")
	}
	for _, m := range hopperMistakes {
		d := ptxtest.New(90)
		d.Edit = func(text string) string {
			if !strings.Contains(text, ".target sm_90a") {
				return text
			}
			return plantedIn(t, text, m)
		}
		b, err := cuda.OpenOn(d, "own")
		if err == nil && b.HopperRuns() && b.HopperMultiplies() {
			t.Errorf("%s: not seen", m.what)
			continue
		}
		if d.Last != nil {
			err = d.Last
		}
		t.Logf("%s: %.250s", m.what, fmt.Sprint(b, err))
	}
}

// whatOrders are a kernel's barriers and waits for copies.
var whatOrders = regexp.MustCompile(`(?:bar\.sync|bar\.warp\.sync|cp\.async\.wait_group)\s[^;]*;`)

// An orderedKernel is a kernel with a case in which it needs its barriers and waits but for one, which is given by its
// number; 0 is none.
type orderedKernel struct {
	plant
	spare int
}

var orderedKernels = []orderedKernel{
	{plant{"exact", "attention_f32", "Attention", "f32/f32/1x2x33x80x64"}, 0},
	// Here a thread reads what it wrote itself.
	{plant{"exact", "attention_queries_f32", "AttentionBackward", "f32/f32/2x1x35x513x32"}, 3},
	{plant{"exact", "attention_keys_f32", "AttentionBackward", "f32/f32/2x2x2x3x40"}, 0},
	{plant{"exact", "norm_long", "Norm", "f32 kind 1 3x1024"}, 0},
	{plant{"exact", "product_f32", "Gemm", "product/NT/f32/31x130x257"}, 0},
	{plantNT, 0},
	{plant{"own", "attention_tensor_64", "Attention", "bf16/f32/3x2x80x80x64"}, 0},
	{plant{"own", "attention_tensor_queries_64", "AttentionBackward", "bf16/f32/3x2x80x80x64"}, 0},
	// Here the wait is for keys that no query sees.
	{plant{"own", "attention_tensor_keys_64", "AttentionBackward", "bf16/f32/3x2x80x80x64"}, 4},
}

// TestPTXRaces leaves out one barrier or one wait after another: a race is found, where results may well be right.
func TestPTXRaces(t *testing.T) {
	if testing.Short() {
		t.Skip("the image takes half a second to unpack")
	}
	all := *ptxMillions > 0
	if !all {
		t.Logf("one place of one kernel of %d; the others: make ptx", len(orderedKernels))
	}
	places, seen, blind := 0, 0, 0
	for _, k := range orderedKernels {
		for i, n := 1, 1; i <= n && (all || places == 0); i++ {
			leaveOut := func(text string) string {
				found := 0
				text = whatOrders.ReplaceAllStringFunc(text, func(s string) string {
					if found++; found == i {
						return ""
					}
					return s
				})
				n = found
				return text
			}
			err := runPlanted(t, ptxtest.New(80), k.plant, leaveOut)
			if n == 0 {
				t.Fatalf("%s has no barrier", k.kernel)
			}
			places++
			switch {
			case err != nil && strings.Contains(err.Error(), "a race"):
				seen++
			case err != nil:
				t.Errorf("%s without barrier or wait %d of %d: %v", k.kernel, i, n, err)
			case i != k.spare:
				t.Errorf("%s without barrier or wait %d of %d: no race", k.kernel, i, n)
			}
			if !all {
				continue
			}
			d := ptxtest.New(80)
			d.Blind = true
			if runPlanted(t, d, k.plant, leaveOut) != nil {
				blind++
			}
		}
	}
	t.Logf("%d barriers and waits left out: %d races seen; wrong results or a launch that failed where they go unseen: %d",
		places, seen, blind)
}
