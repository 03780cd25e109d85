package rewards

import (
	"context"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
	"github.com/darkroom-rl/darkroom/vision/ppocr"
)

// PPOCR is PP-OCR as a reader: lines in reading order, with the recogniser's confidence. It computes on the CPU, with
// the same bits on every machine.
type PPOCR struct{ *ppocr.Reader }

// Read implements Reader.
func (p PPOCR) Read(ctx context.Context, m *vision.Image) ([]Line, error) {
	found, err := p.Reader.Read(ctx, m)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, l := range found {
		lines = append(lines, Line{Text: l.Text, Confidence: l.Score})
	}
	return lines, nil
}

// openPPOCR opens the networks of a folder as the reader of reward ocr.
func openPPOCR(k ocrKeys, o OCR) (Opened, error) {
	dir, err := k.Folder()
	if err != nil {
		return Opened{}, err
	}
	be, err := cpu.New()
	if err != nil {
		return Opened{}, err
	}
	rules := ppocr.Paddle()
	if config.Filled(k.OCR).Rules == "rapidocr" {
		rules = ppocr.Rapid()
	}
	r, err := ppocr.Open(dir, rules, onnx.Options{Backend: be, Threads: be.Threads()})
	if err != nil {
		be.Close()
		return Opened{}, err
	}
	o.Reader = PPOCR{r}
	opened := One(o)
	opened.Close = func() error { be.Close(); return nil }
	return opened, nil
}
