package report

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// TestBoxesInBrowser: a large picture has the boxes of a reward's evidence, in their places whatever the picture's size
// on the screen; those of the chosen reward alone, and none where the reader wants none.
func TestBoxesInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	dir := runtest.Write(t, filepath.Join(t.TempDir(), "made"), runtest.Options{Iterations: 4, Every: 2, Prompts: 12, Text: hostile})
	must(t, Write(dir))
	// drawn are the visible boxes in the lightbox: their number, the first one's distance from its place as a share of
	// the picture, and the size of its words.
	const drawn = `(() => {
		const layers = [...document.querySelectorAll("dialog[open] svg.boxes")].filter((l) => !l.hasAttribute("hidden"));
		if (layers.length === 0) return { boxes: 0, off: 0, size: 0 };
		const l = layers[0], picture = l.parentElement.firstElementChild.getBoundingClientRect();
		const line = l.querySelector(".line"), r = line.getBoundingClientRect(), fits = Math.min(picture.width, picture.height);
		const at = [picture.left + (picture.width - fits) / 2, picture.top + (picture.height - fits) / 2];
		const x = at[0] + (fits * Number(line.getAttribute("x"))) / 64, y = at[1] + (fits * Number(line.getAttribute("y"))) / 64;
		return { boxes: document.querySelectorAll("dialog[open] svg.boxes:not([hidden]) .line").length, off: Math.max(Math.abs(r.left - x), Math.abs(r.top - y)) / fits,
			size: parseFloat(getComputedStyle(l.querySelector("text")).fontSize) * fits / 64 };
	})()`
	for _, size := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"light-1400", 1400, 900, false}, {"dark-1400", 1400, 900, true}, {"light-390", 390, 844, false}} {
		b.Size(size.width, size.height, size.width < 700, size.dark)
		b.Open("file://" + filepath.Join(dir, Name))
		b.Until(`document.querySelectorAll(".pair").length > 1 && document.querySelectorAll(".kept").length > 1`, 20*time.Second)
		for _, picture := range []string{".pair", ".kept"} {
			b.Eval(`(() => { const of = [...document.querySelectorAll("`+picture+`")]; of.find((e) => / (left|right|above|below) /.test(e.textContent)).click(); })()`, nil)
			b.Until(drawn+`.boxes > 0 && document.querySelector("dialog[open] .stage canvas[data-drawn=yes], dialog[open] .stage img")`, 10*time.Second)
			var seen struct {
				Boxes     int
				Off, Size float64
			}
			b.Until("(("+drawn+").size > 10 && ("+drawn+").size < 16)", 5*time.Second)
			b.Eval(drawn, &seen)
			if want := map[string]int{".pair": 8, ".kept": 4}[picture]; seen.Boxes != want || seen.Off > 0.01 || seen.Size > 16 {
				t.Errorf("%s, %s: %d boxes, not %d; the first lies %.3f of the picture from its place; words are %.0f pixels high", size.name, picture, seen.Boxes, want, seen.Off, seen.Size)
			}
			b.View(*shots, "boxes-"+size.name+picture)
			b.Eval(`document.querySelector("dialog[open] [data-choice='']").click()`, nil)
			if b.Eval(drawn, &seen); seen.Boxes != 0 {
				t.Errorf("%s, %s: %d boxes are left where none are wanted", size.name, picture, seen.Boxes)
			}
			b.Eval(`document.querySelector("dialog[open] [data-choice=scene]").click()`, nil)
			b.Eval(`document.querySelector("dialog[open] .close").click()`, nil)
		}
	}
	var planted bool
	if b.Eval("Boolean(window.planted)", &planted); planted {
		t.Error("a label became markup")
	}
	if m := b.Messages(); len(m) > 0 {
		t.Errorf("the console says %s", m)
	}
}
