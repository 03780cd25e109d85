package pipeline

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/outside/spent"
)

// TestFresh: each prompt that is not known is there once, in order; a long list takes no time that grows
// with its square.
func TestFresh(t *testing.T) {
	p := &texts{known: map[textKey]*Text{{prompt: "known"}: {}}}
	fresh := func(prompts ...string) (got []string) {
		for _, a := range p.fresh(abouts(nil, prompts)) {
			got = append(got, a.Prompt)
		}
		return got
	}
	if got := fresh("b", "known", "a", "b", "", "a", ""); !slices.Equal(got, []string{"b", "a", ""}) {
		t.Errorf("%q", got)
	}
	long := make([]string, 400000)
	for i := range long {
		long[i] = "a prompt of the same length " + strconv.Itoa(1000000+i)
	}
	begun := spent.CPU()
	if got := fresh(append(long, long...)...); len(got) != len(long) || spent.CPU()-begun > 20*time.Second {
		t.Errorf("%d prompts in %v of the CPU", len(got), spent.CPU()-begun)
	}
}

// TestReadsLength: a text's length has a meaning wherever it changes the encoder's input, and none where prompts hold
// pictures.
func TestReadsLength(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for name, reads := range map[string]bool{"pipe_qwen_image": true, "pipe_flux2_klein": true, "pipe_flux_kontext": true, "pipe_qwen_image_edit_plus": false, "pipe_sd15": false} {
		p, err := Open(filepath.Join(recorded, name), Options{Pool: tensor.NewPool(be), TextLength: 12})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.ReadsLength() != reads {
			t.Errorf("%s: the length of texts is read: %v", name, p.ReadsLength())
		}
		if name == "pipe_qwen_image" {
			texts, err := p.Encode(strings.Repeat("a sign ", 30))
			if err != nil || texts[0].Tokens != 12 {
				t.Errorf("%d tokens (%v)", texts[0].Tokens, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTextLayers: FLUX.2 reads layers 9, 18 and 27 of its text encoder whatever its depth, and others where they are
// named; elsewhere naming them is a mistake.
func TestTextLayers(t *testing.T) {
	for depth, want := range map[int][]int{36: {9, 18, 27}, 28: {9, 18, 27}, 27: {9, 18, 27}, 4: {1, 2, 3}} {
		if got := kleinLayers(depth); !slices.Equal(got, want) {
			t.Errorf("of %d layers, %v are read, want %v", depth, got, want)
		}
	}
	models := recorded + "/"
	states := func(layers ...int) []float32 {
		texts, err := open(t, models+"pipe_flux2_klein", Options{TextLength: 12, TextLayers: layers}).Encode("a cat")
		if err != nil {
			t.Fatal(err)
		}
		return texts[0].States
	}
	usual, others := states(), states(0, 2, 4)
	if !slices.Equal(usual, states(1, 2, 3)) {
		t.Error("layers 1, 2 and 3 are read, and naming them makes other texts")
	}
	width := len(usual) / 12 / 3
	for token := range 12 {
		at := token * 3 * width
		if slices.Equal(usual[at:at+width], others[at:at+width]) || !slices.Equal(usual[at+width:at+2*width], others[at+width:at+2*width]) {
			t.Errorf("token %d: layers 0, 2, 4 share the second of three with 1, 2, 3, and no other", token)
		}
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for name, want := range map[string]string{"pipe_flux2_klein": "layer 9 are to be read", "pipe_qwen_image": "not of choice"} {
		p, err := Open(models+name, Options{Pool: tensor.NewPool(be), TextLayers: []int{9}})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
