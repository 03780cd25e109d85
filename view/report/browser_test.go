package report

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// hostile is a text that would run, were it markup anywhere.
const hostile = ` <img src=x onerror="window.planted=1"></script><script>window.planted=1</script> {{.}} ${planted}`

var shots = flag.String("shots", "", "a folder for pictures of the page")

// TestPageInBrowser: the page of a run in one file, with its every filter, in both widths and both schemes.
func TestPageInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	dir := runtest.Write(t, filepath.Join(t.TempDir(), "made"), runtest.Options{Iterations: 20, Every: 5, Prompts: 12, Talks: true, Text: hostile})
	must(t, Write(dir))
	shots := *shots
	for _, size := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"light-1400", 1400, 900, false}, {"dark-1400", 1400, 900, true}, {"light-390", 390, 844, false}, {"dark-390", 390, 844, true}} {
		b.Size(size.width, size.height, size.width < 700, size.dark)
		b.Open("file://" + filepath.Join(dir, Name))
		b.Until(`document.querySelectorAll(".pair canvas[data-drawn=yes]").length > 1`, 20*time.Second)
		var wide float64
		if b.Eval("document.documentElement.scrollWidth", &wide); wide > float64(size.width) {
			t.Errorf("%s: the page is %v wide", size.name, wide)
		}
		b.Eval(`(async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += 600) { scrollTo(0, y); await new Promise((r) => setTimeout(r, 120)); } scrollTo(0, 0); })()`, nil)
		b.Shot(shots, "report-"+size.name, 12000)
	}
	var planted bool
	if b.Eval("Boolean(window.planted) || document.querySelector('#app img[src=x]') !== null", &planted); planted {
		t.Error("a text of the run became markup")
	}
	if m := b.Messages(); len(m) > 0 {
		t.Errorf("the console says %s", m)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
