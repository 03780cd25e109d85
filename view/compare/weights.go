package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Weights are compared in the checkpoints that both runs have: the adapter, and without one the trained weights.

// checkpoints is the first number that differs of the earliest checkpoint whose weights differ.
func checkpoints(a, b string) (*Place, error) {
	mine, err := checkpointNames(a)
	if err != nil {
		return nil, err
	}
	for _, name := range mine {
		p, err := weights(filepath.Join(a, name), filepath.Join(b, name))
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		p.File = filepath.ToSlash(filepath.Join(name, p.File))
		p.Iteration, _ = strconv.Atoi(filepath.Base(name)) // that is how it was found
		p.Attempt = attempt(filepath.Join(a, name))
		p.rank = weighed
		return p, nil
	}
	return nil, nil
}

// checkpointNames are a run's, oldest first.
func checkpointNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if _, bad := strconv.Atoi(e.Name()); bad == nil && e.IsDir() {
			names = append(names, filepath.Join("checkpoints", e.Name()))
		}
	}
	slices.SortFunc(names, func(x, y string) int { return len(x) - len(y) })
	return names, err
}

// attempt is how many rollbacks a checkpoint has seen.
func attempt(checkpoint string) int {
	var state struct{ Attempt int }
	if text, err := os.ReadFile(filepath.Join(checkpoint, "state.json")); err == nil && json.Unmarshal(text, &state) == nil {
		return state.Attempt
	}
	return 0
}

// weights compares two checkpoints; nil where they are the same, or one of them is not there. Of two networks that take
// turns, each has an adapter.
func weights(a, b string) (*Place, error) {
	adapted := false
	for _, of := range []struct{ file, prefix string }{{adapterFile, ""}, {filepath.Join(model.Second, adapterFile), ""}, {model.TensorsFile, "weights."}} {
		if of.prefix != "" && adapted {
			break
		}
		p, there, err := sameFile(a, b, of.file, of.prefix)
		if p != nil || err != nil {
			return p, err
		}
		adapted = adapted || there
	}
	return nil, nil
}

const adapterFile = "adapter_model.safetensors"

// sameFile compares a file of two checkpoints, and says whether both have it.
func sameFile(a, b, file, prefix string) (p *Place, there bool, err error) {
	fa, err := safetensors.Open(filepath.Join(a, file))
	if err != nil {
		return nil, false, unless(err)
	}
	defer fa.Close()
	fb, err := safetensors.Open(filepath.Join(b, file))
	if err != nil {
		return nil, false, unless(err)
	}
	defer fb.Close()
	if p, err = tensors(fa, fb, prefix); p != nil {
		p.File = filepath.ToSlash(file)
	}
	return p, true, err
}

// unless leaves out that a file is not there.
func unless(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tensors is the first number that differs of the tensors whose names begin with prefix.
func tensors(a, b *safetensors.File, prefix string) (*Place, error) {
	for _, info := range a.Tensors {
		if !strings.Contains(info.Name, prefix) {
			continue
		}
		other, ok := b.Info(info.Name)
		if !ok || !slices.Equal(info.Shape, other.Shape) || info.DType != other.DType {
			p := &Place{Number: info.Name, A: fmt.Sprint(info.DType, " ", info.Shape)}
			if ok {
				p.B = fmt.Sprint(other.DType, " ", other.Shape)
			}
			return p, nil
		}
		x, err := floats(a, info.Name)
		if err != nil {
			return nil, err
		}
		y, err := floats(b, info.Name)
		if err != nil {
			return nil, err
		}
		for i := range x {
			if n := apart(order32(x[i]), order32(y[i])); n > 0 {
				return &Place{Number: info.Name + fmt.Sprint(at(i, info.Shape)), A: short(x[i]), B: short(y[i]), Units: &n}, nil
			}
		}
	}
	return nil, nil
}

func floats(f *safetensors.File, name string) ([]float32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	return t.Float32(nil)
}

// at is an element's place in a tensor.
func at(i int, shape []int) []int {
	place := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		place[d], i = i%shape[d], i/shape[d]
	}
	return place
}

// short is a float32 in as many digits as it needs.
func short(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }
