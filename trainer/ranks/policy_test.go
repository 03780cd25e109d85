package ranks

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// meeting is a member that waits for the others in the midst of a pass.
type meeting struct {
	member
	wait func() error
}

func (m *meeting) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	a, err := m.member.Eval(w, at)
	if err == nil {
		err = m.wait()
	}
	return a, err
}

// TestNotFiniteTokens: of ranks that share the tokens of a pass one ends with numbers that are not finite, and the
// others do not wait for it: the next pass is made.
func TestNotFiniteTokens(t *testing.T) {
	ranks := []kernels.Backend{&cpu.Backend{}, &cpu.Backend{}}
	m := &exchange.Meeting{Ranks: ranks, Wire: &exchange.Host{Ranks: ranks}}
	odd := &meeting{wait: func() error { return kernels.NotFiniteError("a logit is NaN") }}
	waits := &meeting{wait: func() error { return m.Spread(1, kernels.Span{}, kernels.Span{}) }}
	p := &Policy{Members: []trainer.Policy{odd, waits}, Meeting: m, Shards: 2}
	for range 2 {
		_, err := p.Eval(trainer.Reference, []trainer.Point{{State: []float64{1}}})
		if !errors.As(err, new(kernels.NotFinite)) || errors.As(err, new(*exchange.Failure)) {
			t.Errorf("%v", err)
		}
	}
}

// member is a policy of one weight w: it answers w·x, and its gradient is the sum of x·g.
type member struct {
	weight, grad float64
	rolled       []int
	asked        [][]float64
	moved        int
	fails        error
	panics       any
}

func (m *member) Roll(_ trainer.Weights, keys []trainer.Key) (samples []trainer.Sample, err error) {
	for _, k := range keys {
		m.rolled = append(m.rolled, k.Sample)
		samples = append(samples, trainer.Sample{Key: k})
	}
	return samples, m.fails
}

func (m *member) Eval(_ trainer.Weights, at []trainer.Point) (a trainer.Forward, err error) {
	for _, p := range at {
		m.asked = append(m.asked, p.State)
		a.Outputs = append(a.Outputs, []float64{m.weight * p.State[0]})
	}
	a.Back = func(grads [][]float64) error {
		for i, g := range grads {
			m.grad += at[i].State[0] * g[0]
		}
		return nil
	}
	return a, m.fails
}

func (m *member) Params() trainer.Params   { return m }
func (m *member) Norm() (float64, error)   { return m.grad, nil }
func (m *member) Move(scale, rate float64) { m.weight -= rate * scale * m.grad; m.grad = 0; m.moved++ }
func (m *member) Skip()                    { m.grad = 0 }
func (m *member) Follow(w trainer.Weights, decay float64) {
	if m.weight = decay; m.panics != nil {
		panic(m.panics)
	}
}

// of is a policy of some ranks, and these.
func of(n int) (*Policy, []*member) {
	p, own := &Policy{}, []*member{}
	for range n {
		m := &member{weight: 2}
		own, p.Members = append(own, m), append(p.Members, m)
	}
	p.Sum = func() error {
		sum := 0.0
		for _, m := range own {
			sum += m.grad
		}
		for _, m := range own {
			m.grad = sum
		}
		return nil
	}
	return p, own
}

// TestShares: every thing is one rank's, in order, and shares differ by one at most.
func TestShares(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8} {
		for n := range 20 {
			next, least, most := 0, n, 0
			for r := range ranks {
				lo, hi := exchange.Share(r, ranks, n)
				if lo != next || hi < lo {
					t.Fatalf("rank %d of %d has %d to %d of %d; %d was next", r, ranks, lo, hi, n, next)
				}
				next, least, most = hi, min(least, hi-lo), max(most, hi-lo)
			}
			if next != n || most-least > 1 {
				t.Errorf("%d ranks: %d of %d are shared out, %d to %d each", ranks, next, n, least, most)
			}
		}
	}
}

// TestWhole: where samples of a prompt depend on each other, one rank rolls all of them.
func TestWhole(t *testing.T) {
	p, own := of(3)
	var keys []trainer.Key
	for i := range 10 { // prompts of 4, 4 and 2 samples, and the first once more
		keys = append(keys, trainer.Key{Prompt: i / 4, Sample: i})
	}
	keys = append(keys, trainer.Key{Sample: 10})
	for _, p.Whole = range []bool{false, true} {
		samples, err := p.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range samples {
			if s.Key != keys[i] {
				t.Errorf("sample %d is %+v, want %+v", i, s.Key, keys[i])
			}
		}
		var counts []int
		for _, m := range own {
			counts, m.rolled = append(counts, len(m.rolled)), nil
		}
		if want := map[bool][]int{false: {3, 4, 4}, true: {4, 4, 3}}[p.Whole]; !slices.Equal(counts, want) {
			t.Errorf("whole prompts: %v: %v samples are rolled, want %v", p.Whole, counts, want)
		}
	}
	if samples, err := p.Roll(trainer.Current, nil); err != nil || len(samples) > 0 {
		t.Errorf("no keys: %v, %v", samples, err)
	}
}

// TestPolicy: samples and answers come back in their order, gradients go to those that answered, and
// all move by the sum.
func TestPolicy(t *testing.T) {
	for _, n := range []int{1, 2, 5, 7} { // with 3 ranks: two shares are empty, one is
		p, own := of(3)
		var keys []trainer.Key
		var points []trainer.Point
		var grads [][]float64
		want := 0.0
		for i := range n {
			x, g := float64(i+1), float64(10-i)
			keys, points = append(keys, trainer.Key{Sample: i}), append(points, trainer.Point{State: []float64{x}})
			grads, want = append(grads, []float64{g}), want+x*g
		}
		samples, err := p.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		forward, err := p.Eval(trainer.Current, points)
		if err != nil {
			t.Fatal(err)
		}
		var rolled []int
		for r, m := range own {
			lo, hi := exchange.Share(r, 3, n)
			if len(m.rolled) != hi-lo || len(m.asked) != hi-lo {
				t.Errorf("rank %d rolled %d and answered %d of %d", r, len(m.rolled), len(m.asked), n)
			}
			rolled = append(rolled, m.rolled...)
		}
		for i := range n {
			if samples[i].Key != keys[i] || forward.Outputs[i][0] != 2*float64(i+1) || rolled[i] != i {
				t.Errorf("sample %d of %d: %v, answer %v, rolled as %d", i, n, samples[i].Key, forward.Outputs[i], rolled[i])
			}
		}
		if err := forward.Back(grads[:n-1]); err == nil {
			t.Error("too few gradients went back")
		}
		if err := forward.Back(grads); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing to add up
			if norm, err := p.Params().Norm(); err != nil || norm != want {
				t.Errorf("the norm is %v, %v; want %v", norm, err, want)
			}
		}
		if err := forward.Back(grads); err == nil || !strings.Contains(err.Error(), "before the weights moved") {
			t.Errorf("a gradient after the sum: %v", err)
		}
		p.Params().Move(1, 0.5)
		for r, m := range own {
			if m.weight != 2-want/2 || m.moved != 1 {
				t.Errorf("rank %d stands at %v after %d moves, want %v", r, m.weight, m.moved, 2-want/2)
			}
		}
		if _, err := p.Eval(trainer.Old, points); err != nil {
			t.Error(err)
		}
		p.Params().Follow(trainer.Old, 7)
		if own[0].weight != 7 || own[2].weight != 7 {
			t.Error("not all ranks followed")
		}
	}
}

// TestFailures: a rank's error comes out where the policy was asked, with the rank's name; the others are stopped,
// and a device's panic where nothing can be returned goes on unchanged.
func TestFailures(t *testing.T) {
	p, own := of(3)
	p.Team.Devices = []string{"cuda:0", "cuda:1", "cuda:2"}
	stopped := 0
	p.Team.Stop = func() { stopped++ }
	own[1].fails = errors.New("no memory left")
	says := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, own[1].fails) || !strings.Contains(err.Error(), "rank 1 (cuda:1): no memory left") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := p.Roll(trainer.Current, make([]trainer.Key, 6))
	says("rolling", err)
	_, err = p.Eval(trainer.Old, []trainer.Point{{State: []float64{1}}, {State: []float64{1}}, {State: []float64{1}}})
	says("answering", err)
	if stopped != 2 {
		t.Errorf("the others were told to stop %d times, of 2", stopped)
	}
	p.Sum = func() error { return own[1].fails }
	if _, err := p.Params().Norm(); !errors.Is(err, own[1].fails) {
		t.Errorf("%v", err)
	}
	if said := func() (r any) {
		defer func() { r = recover() }()
		p.Params().Move(1, 1)
		return nil
	}(); said == nil || !slices.Equal([]int{own[0].moved, own[1].moved}, []int{0, 0}) {
		t.Error("weights moved before gradients were added up")
	}
	own[2].panics = lost{}
	func() {
		var err error
		defer func() {
			if err == nil || err.Error() != "rank 2 (cuda:2): cuda:2 is lost" {
				t.Errorf("following: %v", err)
			}
		}()
		defer kernels.Recover(&err)
		p.Params().Follow(trainer.Old, 1)
	}()
}

// lost is a device's panic.
type lost struct{}

func (lost) Error() string    { return "cuda:2 is lost" }
func (lost) OnDevice() string { return "cuda:2" }

// TestAgree: a rank whose weights went astray is named, and nothing is saved.
func TestAgree(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path, Threads: 1})
	defer be.Close()
	e, err := experiment.Parse("small.toml", []byte(`run = { name = "small", iterations = 1 }
model = { path = "embed:tiny-sd3", lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] } }
rollout = { prompts = "embed:scenes" }
reward = [{ name = "scene" }]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := []kernels.Backend{be, be, be}
	g := Group{Backends: all, Wire: &exchange.Host{Ranks: all}, Limit: e.Run.Patience()}
	m, err := g.Open(model.Options{}, func(o model.Options) (model.Model, error) { return pictures.Open(e, o) })
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Tensors(); err != nil {
		t.Errorf("ranks that were opened alike: %v", err)
	}
	p := m.(remote).models[2].Moved()[1]
	x := p.Value.F32()
	x[0] += 1e-6
	p.Value.UploadF32(x)
	if _, err := m.Tensors(); err == nil || !strings.Contains(err.Error(), "rank 2") || !strings.Contains(err.Error(), p.Name) {
		t.Errorf("%v; want rank 2 and %s in it", err, p.Name)
	}
}
