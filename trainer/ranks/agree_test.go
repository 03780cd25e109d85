package ranks

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

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
