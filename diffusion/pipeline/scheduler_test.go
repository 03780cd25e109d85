package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// TestRecordedSchedules: sigmas and times of every recorded pipeline are equal, bit for bit.
func TestRecordedSchedules(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(recorded, "pipe_*"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "case.json"))
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Out  []string `json:"out"`
			Args struct {
				Steps  int `json:"steps"`
				Height int `json:"height"`
				Width  int `json:"width"`
				Frames int `json:"num_frames"`
			} `json:"args"`
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		p := open(t, dir, Options{})
		at, err := p.Shape(c.Args.Height, c.Args.Width)
		if c.Args.Frames > 0 {
			at, err = p.ClipShape(c.Args.Frames, c.Args.Height, c.Args.Width)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Schedule(c.Args.Steps, at)
		if err != nil {
			t.Fatal(err)
		}
		file := tensorsOf(t, dir)
		for _, name := range c.Out {
			own := got.Sigmas
			switch {
			case strings.Contains(name, "unipc."): // another scheduler's
				continue
			case strings.HasSuffix(name, "timesteps"):
				own = got.Timesteps
			case !strings.HasSuffix(name, "sigmas"):
				continue
			}
			tensor, err := file.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := tensor.Float32(nil)
			if strings.HasPrefix(tensor.DType.String(), "I") { // whole times
				var whole []int64
				whole, err = tensor.Int64(nil)
				for _, v := range whole {
					want = append(want, float32(v))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(own) != len(want) {
				t.Errorf("%s: %s are %d, recorded %d", dir, name, len(own), len(want))
				continue
			}
			compared++
			for i, v := range want {
				if own[i] != float64(v) {
					t.Errorf("%s: %s %d is %v, recorded %v", dir, name, i, own[i], v)
					break
				}
			}
		}
	}
	if compared < 20 {
		t.Errorf("%d lists were compared", compared)
	}
}

// tensorsOf are a recorded case's.
func tensorsOf(t *testing.T, dir string) *safetensors.File {
	t.Helper()
	file, err := safetensors.Open(filepath.Join(dir, "tensors.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
