package run

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

var attacks = flag.Int("attacks", 48, "how many results of workers to change")

// TestChangedResults: workers change their results at random before they bring them: lists, numbers, keys, the file
// itself. A run ends as one without them does; whatever was refused names its worker, which is dismissed once the
// trainer has compared. -attacks says how many results are changed.
func TestChangedResults(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models: seconds, and minutes without assembly; left out by -short")
	}
	kinds := map[string]func() *experiment.Experiment{
		"pic":  func() *experiment.Experiment { return parse(t, "run.iterations=100000", "evaluate.every=0") },
		"clip": func() *experiment.Experiment { return parseClips(t, "run.iterations=100000", "evaluate.every=0") },
		"edit": func() *experiment.Experiment {
			return parseEdits(t, "pipe_flux2_klein", "run.iterations=100000", "evaluate.every=0")
		},
		"vlm": func() *experiment.Experiment {
			return parseText(t, talking, fewQuestions(t), speaker(t), "run.iterations=100000", "evaluate.every=0")
		},
	}
	for kind, made := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			changed, f, says := changes(t, made(), uint64(len(kind)), *attacks/len(kinds))
			refused, useless := f.Refused(), strings.Count(says, "is of no use")
			t.Logf("%d results changed, %d refused as they came, %d workers dismissed, runs ended 0", changed, useless, len(refused))
			if useless == 0 || len(refused) == 0 { // while a worker is compared, its further results are not read
				t.Errorf("%d results changed, %d refused, dismissed %v", changed, useless, refused)
			}
			for name := range refused {
				if !strings.HasPrefix(name, "mutant") {
					t.Errorf("worker %s is dismissed", name)
				}
			}
		})
	}
}

// changes trains until this number of results were changed.
func changes(t *testing.T, e *experiment.Experiment, seed uint64, all int) (changed int, f *fleet.Fleet, says string) {
	t.Helper()
	c := newCrew(t)
	r := rand.New(rand.NewPCG(seed, 646))
	enough := make(chan struct{})
	ends := sync.OnceFunc(func() { close(enough) })
	c.mutate(func(payload []byte) []byte {
		if changed == all {
			ends()
			return payload
		}
		changed++
		if changed <= len(fatal) {
			return fatal[changed-1](payload)
		}
		return mutated(r, payload)
	})
	var said strings.Builder
	until, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		<-enough
		stop()
	}()
	result, f := c.trainUntil(until, e, Options{Dir: filepath.Join(t.TempDir(), "run"), Logf: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}, fleet.Options{})
	c.close()
	if result.Status != ledger.Interrupted {
		t.Errorf("the run ended: %+v", result)
	}
	return changed, f, said.String()
}

// mutate lets a worker work that changes its results, under another name once it is dismissed.
func (c *crew) mutate(change func(payload []byte) []byte) {
	be := fastest(c.T, 1)
	c.work.Go(func() {
		defer be.Close()
		about := fleet.About{Class: "test"}
		s := &fleet.Executor{About: about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenWorker(s, Worker{Memory: "1GiB", Logf: c.Logf, Allowed: Allowed{Programs: true}}, model.Options{Backend: be, Context: ctx})
		}}
		defer s.Close()
		for i := 1; c.ctx.Err() == nil; i++ {
			name := fmt.Sprint("mutant", i)
			link := c.hub.Link(name)
			s.Blobs = link
			w := fleet.Worker{Name: name, Link: link, About: about, Beat: soon.Beats(), Logf: c.Logf, Do: func(ctx context.Context, j fleet.Job) ([]byte, error) {
				payload, err := s.Do(ctx, j)
				if err == nil {
					payload = change(payload)
				}
				return payload, err
			}}
			if err := w.Run(c.ctx); err != nil && !errors.Is(err, fleet.ErrDismissed) {
				c.Errorf("worker %s: %v", name, err)
				return
			}
		}
	})
}

// fatal are changes that ended runs, each some iterations later and without the worker's name.
var fatal = []func(payload []byte) []byte{
	func(payload []byte) []byte { // a step that the sampler does not have
		return rewritten(payload, func(first map[string]any, _ func(any) *safetensors.Tensor) {
			if steps, ok := first["steps"].([]any); ok && len(steps) > 0 {
				steps[0] = 1 << 31
			}
		})
	},
	func(payload []byte) []byte { // and one that draws nothing
		return rewritten(payload, func(first map[string]any, _ func(any) *safetensors.Tensor) {
			if steps, ok := first["steps"].([]any); ok && len(steps) > 0 {
				steps[len(steps)-1] = steps[len(steps)-1].(float64) + 1
			}
		})
	},
	func(payload []byte) []byte { // latents of another length, as all lists beside them
		return rewritten(payload, func(first map[string]any, list func(any) *safetensors.Tensor) {
			all := []any{first["final"]}
			for _, key := range []string{"state", "choice", "mean"} {
				if more, ok := first[key].([]any); ok {
					all = append(all, more...)
				}
			}
			for _, at := range all {
				if x := list(at); x != nil && x.DType != safetensors.U8 {
					x.Data, x.Shape = nil, []int{0}
				}
			}
		})
	},
	func(payload []byte) []byte { // log-probabilities that no token has
		return rewritten(payload, func(first map[string]any, list func(any) *safetensors.Tensor) {
			x := list(first["log_prob"])
			if x == nil || len(x.Shape) != 1 {
				return
			}
			x.DType, x.Data = safetensors.F64, nil
			for range x.Shape[0] {
				x.Data = binary.LittleEndian.AppendUint64(x.Data, math.Float64bits(-1e300))
			}
		})
	},
}

// rewritten is a result whose first sample was changed; list is a tensor by its number.
func rewritten(payload []byte, change func(first map[string]any, list func(at any) *safetensors.Tensor)) []byte {
	f, err := safetensors.Read("a result", payload)
	if err != nil {
		return payload
	}
	tensors := make([]safetensors.Tensor, len(f.Tensors))
	for i, x := range f.Tensors {
		if tensors[i], err = f.Tensor(x.Name); err != nil {
			return payload
		}
	}
	var said struct {
		Samples []map[string]any `json:"samples"`
		Passes  any              `json:"passes,omitempty"`
	}
	if json.Unmarshal([]byte(f.Metadata["samples"]), &said) != nil || len(said.Samples) == 0 {
		return payload
	}
	change(said.Samples[0], func(at any) *safetensors.Tensor {
		for i := range tensors {
			if tensors[i].Name == fmt.Sprint(at) {
				return &tensors[i]
			}
		}
		return nil
	})
	text, err := json.Marshal(said)
	if err != nil {
		return payload
	}
	next, err := safetensors.Bytes(tensors, map[string]string{"samples": string(text)})
	if err != nil {
		return payload
	}
	return next
}

// odd are numbers that a list may have after a change.
var odd = []float64{0, -1, 1, 1e6, 1e9, -1e18, 1e30, 1e300, -1e300, math.MaxFloat64, 5e-324, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 31, 700, -1000}

// mutated is a result after one to three changes.
func mutated(r *rand.Rand, payload []byte) []byte {
	for range 1 + r.IntN(3) {
		if r.IntN(12) == 0 { // the file itself
			payload = append([]byte(nil), payload...)
			switch r.IntN(3) {
			case 0:
				payload[r.IntN(len(payload))] ^= 1 << r.IntN(8)
			case 1:
				payload = payload[:r.IntN(len(payload))]
			default:
				payload = append(payload, payload[:r.IntN(len(payload))]...)
			}
			continue
		}
		f, err := safetensors.Read("a result", payload)
		if err != nil {
			continue // it was changed so much
		}
		tensors, metadata := make([]safetensors.Tensor, len(f.Tensors)), map[string]string{}
		for i, x := range f.Tensors {
			if tensors[i], err = f.Tensor(x.Name); err != nil {
				return payload
			}
		}
		for k, v := range f.Metadata {
			metadata[k] = v
		}
		if r.IntN(2) == 0 && len(tensors) > 0 {
			changeList(r, &tensors[r.IntN(len(tensors))], tensors)
		} else {
			for _, k := range slices.Sorted(maps.Keys(metadata)) {
				metadata[k] = changedJSON(r, metadata[k])
			}
		}
		if next, err := safetensors.Bytes(tensors, metadata); err == nil {
			payload = next
		}
	}
	return payload
}

// changeList changes a tensor's numbers, their count, or puts another tensor in its place.
func changeList(r *rand.Rand, x *safetensors.Tensor, all []safetensors.Tensor) {
	size := map[safetensors.DType]int{safetensors.F32: 4, safetensors.F64: 8}[x.DType]
	if size == 0 {
		size = 1
	}
	x.Data = append([]byte(nil), x.Data...)
	switch n := len(x.Data) / size; r.IntN(4) {
	case 0:
		other := all[r.IntN(len(all))]
		x.DType, x.Shape, x.Data = other.DType, other.Shape, other.Data
	case 1:
		to := []int{0, 1, 7, 720, 65536, n + 1, max(0, n-1), 2 * n}[r.IntN(8)]
		data := make([]byte, to*size)
		copy(data, x.Data)
		x.Data, x.Shape = data, []int{to}
	default:
		for range 1 + r.IntN(3) {
			if n == 0 {
				break
			}
			at, v := r.IntN(n)*size, odd[r.IntN(len(odd))]
			switch size {
			case 4:
				binary.LittleEndian.PutUint32(x.Data[at:], math.Float32bits(float32(v)))
			case 8:
				binary.LittleEndian.PutUint64(x.Data[at:], math.Float64bits(v))
			default:
				x.Data[at] = byte(r.IntN(256))
			}
		}
	}
}

// changedJSON changes one value of a text.
func changedJSON(r *rand.Rand, text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	leaves := 0
	walk(v, func(any) any { leaves++; return nil })
	if leaves == 0 {
		return text
	}
	at, n := r.IntN(leaves), 0
	v = walk(v, func(old any) any {
		if n++; n-1 != at {
			return nil
		}
		return changedValue(r, old)
	})
	if changed, err := json.Marshal(v); err == nil {
		return string(changed)
	}
	return text
}

// walk offers every value to f, and replaces it with f's result, unless that is nil.
func walk(v any, f func(v any) any) any {
	if with := f(v); with != nil {
		return with
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = walk(v[i], f)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = walk(v[k], f)
		}
	}
	return v
}

// changedValue is something else than a value.
func changedValue(r *rand.Rand, old any) any {
	numbers := []float64{0, -1, 1, 2, 3, 7, 1 << 31, -1 << 31, 1e18, -1e18, 1e300, 0.5}
	switch v := old.(type) {
	case float64:
		if r.IntN(3) == 0 {
			return v + []float64{1, -1, 0.25, 1e6}[r.IntN(4)]
		}
		return numbers[r.IntN(len(numbers))]
	case bool:
		return !v
	case string:
		return []any{"", v + v, strings.Repeat("9", 300), "crop", 1.0}[r.IntN(5)]
	case []any:
		switch r.IntN(4) {
		case 0:
			return append([]any{}, v[:len(v)/2]...)
		case 1:
			return append(append([]any{}, v...), v...)
		case 2:
			return []any{}
		}
		mixed := append([]any{}, v...)
		r.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
		return mixed
	}
	return []any{"", 1.0, []any{}, map[string]any{}}[r.IntN(4)]
}
