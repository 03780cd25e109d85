package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// networks are all that is read from a config.json, each with a folder to begin with.
func networks() []struct {
	folder string
	build  func(dir string, p *nn.Params) error
} {
	return []struct {
		folder string
		build  func(dir string, p *nn.Params) error
	}{
		{"sd35", with(mmdit.ReadConfig, func(p *nn.Params, c mmdit.Config) { mmdit.New(p, c) })},
		{"flux_guidance", with(flux.ReadConfig, func(p *nn.Params, c flux.Config) { flux.New(p, c) })},
		{"unet_sdxl", with(unet.ReadConfig, func(p *nn.Params, c unet.Config) { unet.New(p, c) })},
		{"vae_sd3", with(vae.ReadConfig, func(p *nn.Params, c vae.Config) { vae.New(p, c) })},
		{"vae_tiny", with(vae.ReadTinyConfig, func(p *nn.Params, c vae.TinyConfig) { vae.NewTiny(p, c) })},
		{"umt5", with(t5.ReadConfig, func(p *nn.Params, c t5.Config) { t5.New(p, c) })},
		{"clip_text_proj", with(clip.ReadTextConfig, func(p *nn.Params, c clip.TextConfig) { clip.NewText(p, c, true) })},
		{"clip_model", with(clip.ReadConfig, func(p *nn.Params, c clip.Config) { clip.New(p, c) })},
	}
}

func with[C any](read func(string) (C, error), build func(*nn.Params, C)) func(string, *nn.Params) error {
	return func(dir string, p *nn.Params) error {
		c, err := read(dir)
		if err != nil {
			return err
		}
		build(p, c)
		return p.Check()
	}
}

// empty is a file of no tensors.
type empty struct{}

func (empty) Names() []string { return nil }
func (empty) Tensor(name string) (safetensors.Tensor, error) {
	return safetensors.Tensor{}, fmt.Errorf("%s: it is not there", name)
}

// FuzzNetworkSettings takes any bytes for a network's config.json. Accepted settings ask for their parameters, and
// fail for lack of them, without large memory; nothing panics.
func FuzzNetworkSettings(f *testing.F) {
	all := networks()
	for i, n := range all {
		data, err := os.ReadFile(filepath.Join(recorded, n.folder, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(i), []byte(`{}`))
		f.Add(uint8(i), []byte(`{"block_out_channels": [], "num_layers": 1e99}`))
	}
	pool := frugalPool(f)
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := nn.New(nn.Options{Pool: pool, Source: empty{}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Free()
		err = all[int(which)%len(all)].build(dir, p)
		if err == nil {
			t.Fatal("a network without parameters was taken")
		}
		if text := err.Error(); len(text) > 20000 || !strings.Contains(text, "config.json") && !strings.Contains(text, "missing") {
			t.Fatalf("%.2000s", text)
		}
	})
}

// FuzzFolder takes any bytes for one of a pipeline's small files, and uses accepted ones.
func FuzzFolder(f *testing.F) {
	files := []string{"model_index.json", "scheduler/scheduler_config.json", "tokenizer/tokenizer_config.json", "tokenizer/special_tokens_map.json", "tokenizer/vocab.json", "tokenizer/merges.txt",
		"text_encoder/config.json", "unet/config.json", "vae/config.json"}
	dir := filepath.Join(f.TempDir(), "pipe_sd15")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(recorded, "pipe_sd15"))); err != nil {
		f.Fatal(err)
	}
	was := map[string][]byte{}
	for i, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			data, err = []byte("{}"), nil
		}
		if err != nil {
			f.Fatal(err)
		}
		was[name] = data
		f.Add(uint8(i), data)
	}
	pool := frugalPool(f)
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := files[int(which)%len(files)]
		write := func(data []byte) {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(data)
		defer write(was[name])
		if err := usedWith(pool, dir); err != nil && (strings.Contains(err.Error(), "a panic") || len(err.Error()) > 20000) {
			t.Fatalf("%s: %.2000v", name, err)
		}
	})
}
