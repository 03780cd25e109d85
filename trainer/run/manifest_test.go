package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
)

// TestSumOf: the sum of prompts is that of their list in JSON, which older runs have in their manifest.
func TestSumOf(t *testing.T) {
	negative := "<&>"
	list := []prompts.Prompt{{Text: "a <b> & \u2028"}, {Text: "b", Meta: `{"z": [1, 2], "a": {"x": "<"}}`, Weights: map[string]float64{"b": 1, "a": 0.5}},
		{Text: "c", Negative: &negative, Width: 64, Height: 32}, {Text: "d", Image: prompts.Images{"a.png"}}}
	type old struct { // as it was
		Text     string                     `json:"prompt"`
		Meta     map[string]json.RawMessage `json:"meta,omitempty"`
		Weights  map[string]float64         `json:"weights,omitempty"`
		Negative *string                    `json:"negative,omitempty"`
		Width    int                        `json:"width,omitempty"`
		Height   int                        `json:"height,omitempty"`
		Image    prompts.Images             `json:"image,omitempty"`
	}
	for n := 1; n <= len(list); n++ {
		var as []old
		for _, p := range list[:n] {
			as = append(as, old{p.Text, p.Meta.Map(), p.Weights, p.Negative, p.Width, p.Height, p.Image})
		}
		h := sha256.New()
		if err := json.NewEncoder(h).Encode(as); err != nil {
			t.Fatal(err)
		}
		if got, err := sumOf(list[:n]); err != nil || got != hex.EncodeToString(h.Sum(nil)) {
			t.Errorf("%d prompts: %s, %v", n, got, err)
		}
	}
}

// TestOtherBits: a run that goes on on a device of other bits is noticed; other CPUs, and more threads, have the same.
func TestOtherBits(t *testing.T) {
	const cpu, ampere, hopper = "cpu/avx512, 2 threads", "A100, products of bf16 by cuBLASLt 13.4.1, kernels sm_80", "H100, products of bf16 by cuBLASLt 13.4.1, kernels sm_90"
	const exact = "H100, products of bf16 exact, kernels sm_90"
	for _, c := range []struct {
		begun, now []string
		want       bool
	}{
		{[]string{cpu}, []string{"cpu/avx2, 64 threads"}, false}, {[]string{cpu}, []string{exact}, false}, {[]string{exact}, []string{cpu}, false},
		{[]string{cpu}, []string{hopper}, true}, {[]string{hopper}, []string{cpu}, true}, {[]string{ampere}, []string{hopper}, true},
		{[]string{hopper}, []string{hopper}, false}, {[]string{hopper, hopper, "NCCL"}, []string{hopper, ampere}, true}, {[]string{hopper, hopper, "NCCL"}, []string{hopper, hopper}, false},
	} {
		if got := otherBits(c.begun, c.now); got != c.want {
			t.Errorf("begun on %v, on %v now: %v", c.begun, c.now, got)
		}
	}
}
