package tools

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestPublishedInstructions: the texts are byte for byte those at the commits that their sources name.
func TestPublishedInstructions(t *testing.T) {
	sums := map[string][3]string{
		"deepeyes":       {"1fc5b8b5ebdc9b24", "b35581ac51ca9465"},
		"deepeyes_v5":    {"5bfb0e5ea533043d", "dd644e2a012d5fc1"},
		"deepeyes_v2":    {"a8c324e952bc3a91", "5129192d8e68a2cc"},
		"mini_o3":        {"1f02ab1e7ee85e55"},
		"pixel_reasoner": {"37249a683d675568", "030e899899d9090a"},
		"pyvision":       {"", "9d57cbfdd15a5f52", "61f87b2f4404b1bd"},
		"verl":           {"d8b5fce032793040"},
		"vrag":           {"", "12e72a1e76d41772"},
	}
	for _, p := range Protocols() {
		name, in := p.Name, p.Instructions()
		if name == "darkroom" {
			continue
		}
		if in.Source == "" || in.Source == "this program" {
			t.Errorf("%s: nothing says where its instructions were published", name)
		}
		for i, text := range []string{in.System, in.Question, in.Words} {
			sum := ""
			if text != "" {
				sum = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]
			}
			if sum != sums[name][i] {
				t.Errorf("%s, text %d: %q, wanted %q", name, i, sum, sums[name][i])
			}
		}
	}
}

// TestInstructionsNameTools: whatever a model reads first says how each tool is called.
func TestInstructionsNameTools(t *testing.T) {
	called := map[string]string{"grounding": "<grounding>", "python": "```python", "bbox": "<bbox>"}
	untold := []string{"image_rotate_tool", "read_text"} // DeepEyes' text has no rotation; nothing here reads text
	for _, p := range Protocols() {
		name, in := p.Name, p.Instructions()
		for _, tool := range p.Tools {
			word := tool.Name
			if called[word] != "" {
				word = called[word]
			}
			if !slices.Contains(untold, tool.Name) && !strings.Contains(in.System+in.Question, word) {
				t.Errorf("%s: the model is not told of %s", name, tool.Name)
			}
		}
	}
}

// TestOwnInstructions: schemas are JSON, a frame is named, and a tool that may not be called is not described.
func TestOwnInstructions(t *testing.T) {
	p := DarkroomIn(Thousandths)
	text := p.Instructions().System
	inside, _, _ := strings.Cut(text, "\n</tools>")
	n := 0
	for line := range strings.Lines(inside) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var tool struct {
			Function struct {
				Name, Description string
				Parameters        struct {
					Properties map[string]any
					Required   []string
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &tool); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		f := tool.Function
		if n++; f.Name == "" || f.Description == "" || len(f.Parameters.Properties) == 0 || len(f.Parameters.Required) != 1 || f.Parameters.Properties[f.Parameters.Required[0]] == nil {
			t.Errorf("a tool without a name, a description or arguments: %s", line)
		}
	}
	if n != len(p.Tools)-1 || !strings.Contains(text, "0 to 1000") {
		t.Errorf("%d tools of %d are told:\n%s", n, len(p.Tools), text)
	}
	p.Tools = p.Tools[:1]
	if text := p.Instructions().System; !strings.Contains(text, `"zoom"`) || strings.Contains(text, `"rotate"`) {
		t.Errorf("of zoom alone:\n%s", text)
	}
}

// TestAroundAQuestion: PyVision gives the first picture's size, and asks differently without one.
func TestAroundAQuestion(t *testing.T) {
	in := PyVision(0.1).Instructions()
	if before, behind := in.Around(640, 480); !strings.Contains(before, "Image Width: 640; Image Height: 480\n") || !strings.HasPrefix(behind, "\n\nRemember") {
		t.Errorf("%q ... %q", before, behind)
	}
	if before, _ := in.Around(0, 0); strings.Contains(before, "Image Width") || !strings.HasPrefix(before, "Solve the following problem") {
		t.Errorf("without a picture: %q", before)
	}
}
