package pipeline

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// loaded reads a single network's folder.
func loaded(pool *tensor.Pool, dir string, build func(string, *nn.Params) error) error {
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		return err
	}
	p, err := nn.New(nn.Options{Pool: pool, Source: set})
	if err == nil {
		err = build(dir, p)
		p.Free()
	}
	return errors.Join(err, set.Close())
}

// One tensor of every kind of network is spoilt in turn: each time the error names it.
func TestSpoiltNetworks(t *testing.T) {
	pool := frugalPool(t)
	for _, n := range networks() {
		dir := copied(t, n.folder)
		if err := loaded(pool, dir, n.build); err != nil {
			t.Fatalf("%s: %v", n.folder, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*model.safetensors"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", n.folder, files, err)
		}
		whole, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(files[0])
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(f.Names(), func(s string) bool { return strings.Contains(s, "position_ids") })
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		odd := names[len(names)/2]
		for what, c := range map[string]struct {
			spoil func()
			says  []string
		}{
			"missing": {func() { rewrite(t, files[0], func(a map[string]safetensors.Tensor) { delete(a, odd) }) }, []string{odd, "missing"}},
			"extra":   {func() { rewrite(t, files[0], func(a map[string]safetensors.Tensor) { a[odd+".old"] = a[odd] }) }, []string{odd + ".old", "no such parameter"}},
			"shape": {func() {
				rewrite(t, files[0], func(a map[string]safetensors.Tensor) {
					x := a[odd]
					x.Shape = append([]int{1}, x.Shape...)
					a[odd] = x
				})
			}, []string{odd, "shape"}},
			"dtype": {func() {
				rewrite(t, files[0], func(a map[string]safetensors.Tensor) {
					x := a[odd]
					x.DType = safetensors.I32
					a[odd] = x
				})
			}, []string{odd, "I32"}},
			"truncated": {func() {
				if err := os.Truncate(files[0], int64(len(whole)-1)); err != nil {
					t.Fatal(err)
				}
			}, []string{files[0], "hint"}},
			"a name twice": {func() {
				header := `{"` + odd + `":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"` + odd + `":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`
				raw := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
				if err := os.WriteFile(files[0], append(raw, make([]byte, 8)...), 0o644); err != nil {
					t.Fatal(err)
				}
			}, []string{files[0], odd, "listed twice"}},
		} {
			c.spoil()
			err := loaded(pool, dir, n.build)
			for _, s := range c.says {
				if err == nil || !strings.Contains(err.Error(), s) {
					t.Errorf("%s, %s: %.500v\nwants %q", n.folder, what, err, s)
				}
			}
			if err := os.WriteFile(files[0], whole, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
