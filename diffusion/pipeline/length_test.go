package pipeline

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestReadsLength: a text's length means something wherever it changes what is read, and nothing where prompts hold
// pictures.
func TestReadsLength(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	for name, reads := range map[string]bool{"pipe_qwen_image": true, "pipe_flux2_klein": true, "pipe_flux_kontext": true, "pipe_qwen_image_edit_plus": false, "pipe_sd15": false} {
		p, err := Open("../../cmd/parity/testdata/golden/models/"+name, Options{Pool: tensor.NewPool(be), TextLength: 12})
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
