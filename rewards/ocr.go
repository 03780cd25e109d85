package rewards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: can the words that a prompt asks for be read in the picture? The target is between the first two quotation
// marks of the prompt. Target and recognised text, its lines joined, are lower-cased and lose their spaces; d is
// Levenshtein's distance, at most the target's length:
//
//	reward = 1 - d / length of the target
//
// flow_grpo      lines of confidence 0 are skipped; d is 0 where the target is a part of the
//
//	               was read, so other text around it is free
//	flow_factory   confidences are ignored; a prompt without quotation marks is itself the target
//	flowcps        for clips: every n-th frame, no rule of "within"; the mean over the frames
//	               above 0, so that words in one frame of many are as good as in all
//	strict         d without a limit and without "within": 1 - d / the longer of both, so that
//	               text too much costs as much as text that is missing; of clips, all frames count
//
// Upstreams score 0 where the reader fails; here the reward is missing. It is missing, too,
// where there is no target, for which upstreams raise.
// Invariants (tests): the target read is 1, nothing read is 0; strict <= flow_grpo for one picture.
type OCR struct {
	Reader Reader
	OCRRule
}

// A Reader reads pictures. Finding no text is an answer without lines; not being able to read
// is an error.
type Reader interface {
	Read(ctx context.Context, m *vision.Image) ([]Line, error)
}

// A Line is text that was read.
type Line struct {
	Text       string
	Confidence float64
}

// An OCRRule is a formula.
type OCRRule struct {
	Formula  string `toml:"formula" enum:"flow_grpo,flow_factory,flowcps,strict" doc:"whose formula"`
	Interval int    `toml:"interval" range:"[1,1e6]" doc:"of a clip, one frame in this many is read"`
}

// ErrNoTarget says that a prompt does not ask for words.
var ErrNoTarget = errors.New(`the prompt asks for no words: put them between quotation marks ("...")`)

// Score judges a picture or a clip.
func (o OCR) Score(ctx context.Context, item Item) (Score, error) {
	target, err := o.Target(item.Prompt)
	if err != nil {
		return Score{}, err
	}
	frames, err := o.frames(item)
	if err != nil {
		return Score{}, err
	}
	s := Score{Evidence: []evidence.Reason{{What: "asked for", Text: target}}}
	var each []float64
	for i, frame := range frames {
		lines, err := o.Reader.Read(ctx, frame)
		if err != nil {
			return Score{}, fmt.Errorf("reading frame %d of %d: %w", i+1, len(frames), err)
		}
		each = append(each, o.Of(target, lines))
		s.Evidence = append(s.Evidence, evidence.Reason{What: "read", Text: Joined(lines), Value: each[i]})
	}
	s.Value = o.Mean(each)
	return s, nil
}

func (o OCR) frames(item Item) ([]*vision.Image, error) {
	if item.Clip == nil {
		if item.Image == nil {
			return nil, ErrNoImage
		}
		return []*vision.Image{item.Image}, nil
	}
	return framesOf(item.Clip, o.Interval)
}

func framesOf(c *video.Clip, every int) ([]*vision.Image, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var out []*vision.Image
	for i := 0; i < len(c.Frames); i += max(1, every) {
		out = append(out, &vision.Image{Width: c.Width, Height: c.Height, Pix: c.Frames[i]})
	}
	return out, nil
}

// Joined is all lines' text.
func Joined(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text)
	}
	return b.String()
}

// bare is text as it is compared.
func bare(text string) string { return pytext.Lower(strings.ReplaceAll(text, " ", "")) }

// Target is the text that a prompt asks for, in the form that is compared.
func (o OCRRule) Target(prompt string) (string, error) {
	parts := strings.SplitN(prompt, `"`, 3)
	target := prompt
	switch {
	case len(parts) > 1:
		target = parts[1]
	case o.Formula != "flow_factory":
		return "", ErrNoTarget
	}
	if target = bare(target); target == "" {
		return "", ErrNoTarget
	}
	return target, nil
}

// Of is the reward of one picture's lines.
func (o OCRRule) Of(target string, lines []Line) float64 {
	var b strings.Builder
	for _, l := range lines {
		if l.Confidence > 0 || o.Formula == "flow_factory" {
			b.WriteString(l.Text)
		}
	}
	read := bare(b.String())
	length := utf8.RuneCountInString(target)
	switch o.Formula {
	case "strict":
		return 1 - float64(edits.Distance(read, target))/float64(max(length, utf8.RuneCountInString(read), 1))
	case "flowcps":
	default:
		if strings.Contains(read, target) {
			return 1
		}
	}
	return 1 - float64(min(length, edits.Distance(read, target)))/float64(max(1, length))
}

// Mean is the reward of a clip's frames. A picture is a clip of one.
func (o OCRRule) Mean(each []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range each {
		if v > 0 || o.Formula != "flowcps" {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(max(1, n))
}

// OCROptions are of reward ocr.
type OCROptions struct {
	OCRRule
	Engine   string `toml:"engine" enum:",tesseract,ppocr" doc:"the reader: tesseract, the program that path names; ppocr, the folder of ONNX files that path names (det, rec, cls). Empty: tesseract where there is a path, else the built-in one"`
	Rules    string `toml:"rules" enum:"paddleocr,rapidocr" doc:"of ppocr: PaddleOCR's as flow_grpo reads, or rapidocr's, which turns lines that are upside down"`
	Language string `toml:"language" doc:"of Tesseract: eng, chi_sim ..."`
	Page     int    `toml:"page" range:"[0,13]" doc:"Tesseract's page segmentation mode; 0: 6, a block of text"`
}

// SetDefaults is flow_grpo's formula.
func (o *OCROptions) SetDefaults() {
	*o = OCROptions{OCRRule: OCRRule{Formula: "flow_grpo", Interval: 4}, Rules: "paddleocr", Language: "eng"}
}

// OCRKey is the table of OCROptions.
type OCRKey struct {
	OCR *OCROptions `toml:"ocr" doc:"of reward ocr: whose formula, and how Tesseract reads"`
}

type ocrKeys struct {
	PathKey
	FrameKeys
	OCRKey
}

// ppocr reports whether PP-OCR reads.
func (k ocrKeys) ppocr() bool { return k.OCR != nil && k.OCR.Engine == "ppocr" }

// OCRKind is reward ocr: it reads drawn words itself, or by the program that path names, Tesseract.
var OCRKind = Kind{
	Name:    "ocr",
	Card:    "Words that can be read in the picture, against those asked for: drawn ones, or with path = \"tesseract\" others.",
	Paper:   "Flow-GRPO (Liu et al., 2025)",
	Cases:   []string{"ocr.reward", "ocr.reward_flow_factory", "ocr.reward_video", "ocr.tesseract", "eyes.db_boxes", "eyes.ctc_decode"},
	Judges:  Pictures,
	Traits:  Averages,
	Toy:     "a toy reader, which knows nothing but the words in the program's own drawings of 64 x 64 pixels; words that are drawn illegibly have no score",
	Remedy:  `write path = "tesseract" (Debian: tesseract-ocr)`,
	Options: ocrKeys{},
	Program: With(func(k ocrKeys) string {
		if k.ppocr() {
			return ""
		}
		return k.Path
	}),
	Package: "tesseract-ocr",
	Absent:  "reads by %q, which is not installed here (Debian: tesseract-ocr); without path the built-in reader reads drawn words",
	Check: Checks(func(k ocrKeys, report Report) {
		if k.OCR != nil && k.OCR.Engine != "" && k.Path == "" {
			report("path", "the engine "+k.OCR.Engine+" has no path", `write path = "tesseract", or for ppocr the folder of its .onnx files`)
			return
		}
		if k.OCR != nil && k.ppocr() && (k.OCR.Language != "eng" || k.OCR.Page != 0) {
			report("ocr", "language and page are Tesseract's, and ppocr reads", "leave them out")
			return
		}
		if k.OCR != nil && k.Path == "" && (k.OCR.Language != "eng" || k.OCR.Page != 0) {
			report("ocr", "language and page are Tesseract's, and the built-in reader reads", `write path = "tesseract"`)
		}
	}),
	Needs: With(func(k ocrKeys) Need {
		rule := config.Filled(k.OCR).OCRRule
		return func(p Prompt) error { _, err := rule.Target(p.Text); return err }
	}),
	Open: Opens(func(k ocrKeys, b Bench) (Opened, error) {
		set := config.Filled(k.OCR)
		o := OCR{Reader: SceneReader{}, OCRRule: set.OCRRule}
		if k.ppocr() {
			return openPPOCR(k, o)
		}
		if k.Path != "" {
			t := Tesseract{Program: k.Path, Language: set.Language, Layout: set.Page, Timeout: b.Policy.Timeout}
			if _, err := t.Version(context.Background()); err != nil {
				return Opened{}, err
			}
			o.Reader = t
		}
		return One(o), nil
	}),
}
