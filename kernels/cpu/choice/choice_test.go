package choice

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/cpu/peak"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestMix chooses from a made-up table of this CPU's paths.
func TestMix(t *testing.T) {
	paths := candidates(kernels.MathBF16)
	if len(paths) < 2 {
		t.Skipf("this CPU has no choice: its paths are %s", isa.Paths())
	}
	best, other := isa.Best(), paths[len(paths)-2]
	ms := func(of, listed float64) map[string]float64 {
		return map[string]float64{other.String(): of, best.String(): listed, "no-path": 0.001}
	}
	mix := Table{
		{"products", "bf16", ms(1, 1.61)},
		{"products", "f32", ms(0.97, 1)}, // within the noise
		{"attention", "bf16", ms(2, 1)},
		{"convolutions", "f32", ms(1, 1.07)},
		{"convolutions", "bf16", map[string]float64{other.String(): 3}}, // the best one was not timed
		{"sorting", "f32", ms(1, 9)},
	}.Mix(best)
	want := cpu.Mix{
		Products:     [2]isa.Path{kernels.MathF32: best, kernels.MathBF16: other},
		Attention:    [2]isa.Path{kernels.MathF32: best, kernels.MathBF16: best},
		Convolutions: [2]isa.Path{kernels.MathF32: other, kernels.MathBF16: other},
	}
	if *mix != want {
		t.Errorf("the choice is %v, want %v", *mix, want)
	}
	if mix := (Table{}).Mix(best); *mix != (cpu.Options{Path: best}).Paths() {
		t.Errorf("without a table: %v", *mix)
	}
}

// TestMixedBits: cases have ref's bits, whatever is chosen for the families.
func TestMixedBits(t *testing.T) {
	paths := isa.Paths()
	for turn := range len(paths) { // each takes its share of the cases
		at := func(i int) isa.Path { return paths[(turn+i)%len(paths)] }
		mix := cpu.Mix{Products: [2]isa.Path{at(0), at(1)}, Attention: [2]isa.Path{at(2), at(3)}, Convolutions: [2]isa.Path{at(1), at(2)}}
		b := cpu.NewWith(cpu.Options{Path: isa.Best(), Mix: &mix, Threads: 2})
		done := 0
		for i, c := range kerneltest.Cases() {
			if i%len(paths) != turn || !slices.ContainsFunc([]string{"Gemm", "Attention", "Conv", "Pack"}, func(p string) bool { return strings.HasPrefix(c.Op, p) }) {
				continue
			}
			if err := kerneltest.Hold(c, b, 0); err != nil {
				t.Errorf("%v: %s/%s: %v", mix, c.Op, c.Name, err)
			}
			done++
		}
		b.Close()
		if done < 10 {
			t.Fatalf("only %d cases were held", done)
		}
	}
}

// TestRace: the best time of several rounds counts, and who is far behind is timed no more.
func TestRace(t *testing.T) {
	now, calls := time.Duration(0), [3]int{}
	runner := func(i int, took ...time.Duration) []func() {
		return []func(){func() {
			now += took[min(calls[i], len(took)-1)]
			calls[i]++
		}}
	}
	sums := race([][]func(){runner(0, 1, 9, 7, 8), runner(1, 99, 8, 8, 6), runner(2, 5, 40)}, func() time.Duration { return now })
	if !slices.Equal(sums, []time.Duration{7, 6, 40}) {
		t.Errorf("times are %v", sums)
	}
	if calls != [3]int{rounds + 1, rounds + 1, 2} {
		t.Errorf("they ran %v times", calls)
	}
}

// TestFile: a table is found by machine and program; a file that cannot be written or read costs a measurement and
// nothing else.
func TestFile(t *testing.T) {
	file := File(filepath.Join(t.TempDir(), "cache", "paths.jsonl"))
	one := Kept{CPU: "a", Microcode: "1", Program: "p", At: time.Unix(1, 0).UTC(), Table: Table{{"products", "bf16", map[string]float64{"avx2": 1}}}}
	if _, ok := file.Find(one); ok {
		t.Error("a file that is not there has a table")
	}
	two := one
	two.At, two.Table = time.Unix(2, 0).UTC(), Table{{"products", "bf16", map[string]float64{"avx2": 2}}}
	for _, k := range []Kept{one, {CPU: "a", Microcode: "2", Program: "p"}, {CPU: "a", Microcode: "1", Program: "q"}, two} {
		if err := file.Keep(k); err != nil {
			t.Fatal(err)
		}
	}
	if k, ok := file.Find(one); !ok || k.Table[0].MS["avx2"] != 2 || !k.At.Equal(two.At) {
		t.Errorf("found %+v, %v", k, ok)
	}
	if n := len(file.lines()); n != 3 {
		t.Errorf("%d lines, want one for each machine and program", n)
	}
	for i := range 2 * most {
		if err := file.Keep(Kept{CPU: "b", Program: strings.Repeat("x", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(file.lines()); n != most {
		t.Errorf("%d lines, want the newest %d", n, most)
	}
	if err := os.WriteFile(string(file), []byte("{\n\x00not JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := file.Find(one); ok {
		t.Error("a broken file has a table")
	}
	if err := file.Keep(one); err != nil {
		t.Errorf("a broken file is not replaced: %v", err)
	}
	inFile := File(filepath.Join(string(file), "paths.jsonl"))
	if err := inFile.Keep(one); err == nil {
		t.Error("a folder that is a file takes a table")
	}
	if _, ok := inFile.Find(one); ok {
		t.Error("a folder that is a file has a table")
	}
}

func TestProgram(t *testing.T) {
	a, err := Program()
	if b, _ := Program(); err != nil || len(a) != 32 || a != b {
		t.Errorf("%q, then %q: %v", a, b, err)
	}
}

var measure = flag.Bool("measure", false, "measure this CPU's paths")

// TestMeasure shows the times of this CPU's paths: go test ./kernels/cpu/choice -v -run TestMeasure -measure.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("it measures with -measure")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 5 {
		begin := peak.ThreadTime()
		k := Kept{}.Take()
		own := peak.ThreadTime() - begin
		for _, r := range k.Table {
			for name, ms := range r.MS {
				if !(ms > 0) || math.IsInf(ms, 0) {
					t.Errorf("%s %s: %s takes %v ms", r.Family, r.Math, name, ms)
				}
			}
			t.Logf("%-12s %-4s %v: %s", r.Family, r.Math, r.MS, r.Fastest(isa.Best()))
		}
		t.Logf("in %.0f ms, %.0f of the thread's own", k.MS, own.Seconds()*1e3)
	}
}

// TestBackend takes the path of DARKROOM_CPU, and no other.
func TestBackend(t *testing.T) {
	for _, path := range isa.Paths() {
		t.Setenv("DARKROOM_CPU", path.String())
		b, err := Backend(1, Measure)
		if err != nil {
			t.Fatal(err)
		}
		if want := "cpu/" + path.String(); b.Name() != want {
			t.Errorf("DARKROOM_CPU=%v: %s", path, b.Name())
		}
		b.Close()
	}
	t.Setenv("DARKROOM_CPU", "abacus")
	if _, err := Backend(1, Measure); err == nil {
		t.Error("an unknown path")
	}
}
