package rewards

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// said is a reader that returns the text with the number in a picture's first byte.
type said []string

func (s said) Read(_ context.Context, m *vision.Image) ([]Line, error) {
	text := s[m.Pix[0]]
	if text == "broken" {
		return nil, errors.New("broken")
	}
	return []Line{{text, 0.9}}, nil
}

func TestOCRFormulas(t *testing.T) {
	for _, c := range []struct {
		prompt, read                      string
		grpo, factory, frame, strictValue float64
	}{
		{`a "Stop" sign`, "STOP", 1, 1, 1, 1},
		{`a "Stop" sign`, "", 0, 0, 0, 0},
		{`a "Stop" sign`, "st op", 1, 1, 1, 1},
		{`a "Stop" sign`, "shop", 0.75, 0.75, 0.75, 0.75},
		{`a "Stop" sign`, "please stop here", 1, 1, 0, 4.0 / 14},
		{`a "STOP" and a "GO"`, "go", 0.25, 0.25, 0.25, 0.25},
	} {
		for formula, want := range map[string]float64{"flow_grpo": c.grpo, "flow_factory": c.factory, "flowcps": c.frame, "strict": c.strictValue} {
			o := OCR{said{c.read}, OCRRule{formula, 1}}
			got, err := o.Score(t.Context(), Item{Prompt: c.prompt, Image: vision.New(1, 1)})
			if err != nil || !near(got.Value, want) {
				t.Errorf("%s: %q for %s is %v, want %v, %v", formula, c.read, c.prompt, got.Value, want, err)
			}
			if len(got.Evidence) != 2 || got.Evidence[1].Text != c.read {
				t.Errorf("evidence: %+v", got.Evidence)
			}
		}
	}
}

func TestOCRMissing(t *testing.T) {
	for name, c := range map[string]struct {
		formula string
		item    Item
	}{
		"no words asked for": {"flow_grpo", Item{Prompt: "a sign", Image: vision.New(1, 1)}},
		"empty words":        {"flow_factory", Item{Prompt: `a "" sign`, Image: vision.New(1, 1)}},
		"no picture":         {"strict", Item{Prompt: `a "x" sign`}},
		"a broken reader":    {"flow_grpo", Item{Prompt: `a "x" sign`, Image: vision.New(1, 1)}},
		"no frames":          {"flowcps", Item{Prompt: `a "x" sign`, Clip: &video.Clip{Width: 1, Height: 1}}},
		"a torn frame":       {"flowcps", Item{Prompt: `a "x" sign`, Clip: &video.Clip{Width: 2, Height: 1, Frames: [][]uint8{{0, 0, 0}}}}},
	} {
		if s, err := (OCR{said{"broken"}, OCRRule{c.formula, 1}}).Score(t.Context(), c.item); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// Words that flicker are as good as words that stay by the published formula, not by the strict one.
func TestOCRClip(t *testing.T) {
	clip := &video.Clip{Width: 1, Height: 1}
	for i := range uint8(8) {
		clip.Frames = append(clip.Frames, []uint8{min(i, 1), 0, 0})
	}
	for formula, want := range map[string]float64{"flowcps": 1, "strict": 0.25, "flow_grpo": 0.25} {
		s, err := OCR{said{"exit", ""}, OCRRule{formula, 2}}.Score(t.Context(), Item{Prompt: `an "EXIT" sign`, Clip: clip})
		if err != nil || s.Value != want {
			t.Errorf("%s: %v, want %v, %v", formula, s.Value, want, err)
		}
	}
}

// TestOCREngines: ppocr needs a folder and takes no keys of Tesseract; it starts no program.
func TestOCREngines(t *testing.T) {
	check := func(path string, change func(o *OCROptions)) (said string) {
		k := ocrKeys{OCRKey: OCRKey{OCR: &OCROptions{}}}
		k.OCR.SetDefaults()
		k.Path = path
		change(k.OCR)
		OCRKind.Check(k, func(key, problem, _ string) { said = key + ": " + problem })
		if program := OCRKind.Program(k); k.OCR.Engine == "ppocr" && program != "" {
			t.Errorf("ppocr starts %q", program)
		}
		return said
	}
	for _, c := range []struct {
		path, engine, language, want string
	}{
		{"", "", "eng", ""},
		{"tesseract", "tesseract", "fra", ""},
		{"models/ppocr", "ppocr", "eng", ""},
		{"", "ppocr", "eng", "path: the engine ppocr has no path"},
		{"models/ppocr", "ppocr", "fra", "ocr: language and page are Tesseract's, and ppocr reads"},
	} {
		if got := check(c.path, func(o *OCROptions) { o.Engine, o.Language = c.engine, c.language }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	k := ocrKeys{PathKey: PathKey{Path: t.TempDir()}, OCRKey: OCRKey{OCR: &OCROptions{Engine: "ppocr"}}}
	if _, err := OCRKind.Open(k, Bench{}); err == nil || !strings.Contains(err.Error(), "no .onnx file there") {
		t.Errorf("an empty folder: %v", err)
	}
}
