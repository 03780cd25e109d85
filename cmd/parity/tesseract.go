package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
)

// Tesseract, where the version that cases were recorded with is installed.

var tesseractOps = map[string]Op{"ocr.tesseract": readByTesseract}

const recordedTesseract = "tesseract 5.3.0"

func readByTesseract(c *Case) {
	ctx := context.Background()
	t := rewards.Tesseract{Language: c.String("lang"), Layout: c.Int("psm")}
	version, err := t.Version(ctx)
	if err != nil {
		check(Skipped{err.Error()})
	}
	if version != recordedTesseract {
		check(Skipped{fmt.Sprintf("%s is installed, cases were recorded with %s", version, recordedTesseract)})
	}
	path := c.File("image")
	text := must(t.Text(ctx, path))
	table, words := must2(t.Words(ctx, path))
	list := []any{}
	for _, w := range words {
		list = append(list, map[string]any{"text": w.Text, "conf": w.Confidence, "left": w.Left, "top": w.Top, "width": w.Width, "height": w.Height,
			"block": w.Block, "par": w.Paragraph, "line": w.Line, "word": w.Word})
	}
	c.Put("text", strings.TrimSuffix(text, "\f"), "words", list, "tsv", table)
}
