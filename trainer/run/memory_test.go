package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// lending is a backend that counts requests.
type lending struct {
	kernels.Backend
	bytes int64
}

func (b *lending) Alloc(n int) *kernels.Buffer {
	b.bytes += int64(n)
	return b.Backend.Alloc(n)
}

// TestRewardsAreCounted: a model has the free memory beside rewards' networks, whether they are loaded already or
// will be, and a prediction counts their files beside it.
func TestRewardsAreCounted(t *testing.T) {
	e := parse(t, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}, {name='aesthetic', path='"+experiment.TinyCLIP+"', train=false}]")
	dir, err := assets.Resolve(experiment.TinyCLIP)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	const device = 1 << 40
	on := &lending{Backend: be}
	opened, err := open(context.Background(), ModalityOf(e), e, Options{Dir: t.TempDir(), Backend: on, Logf: t.Logf, Free: func() int64 { return device - on.bytes }})
	if err != nil {
		t.Fatal(err)
	}
	for _, loaded := range []int64{0, info.Size() / 2, 3 * info.Size()} { // in fp32 they take more than their files
		on.bytes, opened.memory.before = loaded, device
		if got, want := opened.memory.left(rewardBytes(e)), device-max(loaded, rewardBytes(e)); got != want || rewardBytes(e) < info.Size() {
			t.Errorf("with %d bytes of rewards loaded, of %d, %d are left to the model, not %d", loaded, info.Size(), got, want)
		}
	}
	if err := opened.close(nil); err != nil {
		t.Fatal(err)
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	need := func(budget int64, sets ...string) *model.Memory {
		t.Helper()
		m, err := Memory(parse(t, sets...), cpu.NewDry(cpu.Options{Path: path}), budget)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	without, with := need(0), need(0, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}]")
	if with.Rewards < info.Size() || with.Rewards > 2*info.Size() || with.Peak() != without.Peak()+with.Rewards || without.Rewards != 0 {
		t.Errorf("rewards take %d bytes of %d, the run %d with them and %d without", with.Rewards, info.Size(), with.Peak(), without.Peak())
	}
	gradient := need(0, "run.shards=2").Training - without.Training
	if more := need(0, "run.shards=6").Training - without.Training; gradient <= 0 || more < 4*gradient || more > 6*gradient {
		t.Errorf("a second shard of the gradient takes %d bytes, five take %d", gradient, more)
	}
	if on := need(0, "run.shards=8", "run.device=cpu,cpu,cpu,cpu").Training - without.Training; on != gradient {
		t.Errorf("two of eight shards take %d bytes on each of four devices, and %d on one", on, gradient)
	}
	half := need(0, "reward=[{name='clip', path='"+experiment.TinyCLIP+"', precision='bf16'}]")
	if half.Rewards != with.Rewards/2 {
		t.Errorf("in bf16 rewards take %d bytes, in f32 %d", half.Rewards, with.Rewards)
	}
	budget := without.Taken(1)
	if fit := need(budget, "reward=[{name='clip', path='"+experiment.TinyCLIP+"'}]"); fit.Micro == 0 && fit.Taken(1) > budget {
		t.Errorf("beside rewards nothing was made smaller: %+v", *fit)
	}
}
