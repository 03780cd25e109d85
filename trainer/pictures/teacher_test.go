package pictures

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestTeacherOfOneNetwork: where two networks take turns, a teacher's adapter may be of either alone, as a run with
// model.experts leaves it; the other network teaches as it is.
func TestTeacherOfOneNetwork(t *testing.T) {
	open := func() *pipeline.Pipeline {
		p, err := pipeline.Open(golden.Folder("models")+"/pipe_wan22_t2v", pipeline.Options{Pool: tensor.NewPool(ref.Backend{})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	params, err := open().Network(1)
	if err != nil {
		t.Fatal(err)
	}
	set, err := params.AddLoRA(nn.LoRA{Rank: 2, Alpha: 2, Targets: []string{"to_q"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	below := filepath.Join(dir, model.Second)
	if err := peft.Write(below, set, peft.Settings{Rank: 2, Alpha: 2}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]bool{dir: {false, true}, below: {true, false}} {
		teacher := open()
		if err := teachAll(teacher, path); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for i, adapted := range want {
			params, err := teacher.Network(i)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(params.Trained()) > 0; got != adapted {
				t.Errorf("%s: network %d has an adapter: %t", path, i, got)
			}
		}
	}
	if err := teachAll(open(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no adapter in this folder") {
		t.Errorf("an empty folder: %v", err)
	}
}
