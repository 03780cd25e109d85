package watch

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// hostile is a text that would run, were it markup anywhere.
const hostile = ` <img src=x onerror="window.planted=1"></script><script>window.planted=1</script>`

// serving is a server over folders, for a test.
func serving(t *testing.T, paths ...string) (*Server, string) {
	t.Helper()
	s := New(paths, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Follow(ctx) }()
	server := httptest.NewServer(http.HandlerFunc(s.ServeHTTP))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		cancel()
		<-done
	})
	return s, server.URL
}

// shots is a folder for pictures of the page, where a person wants to look at them.
var shots = flag.String("shots", "", "a folder for pictures of the page")

// scrolled goes down the page, so that all of it is drawn.
const scrolled = `(async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += 700) { scrollTo(0, y); await new Promise((r) => setTimeout(r, 80)); } scrollTo(0, 0); })()`

// TestWatchInBrowser uses every link, filter and key of the page over runs, one of which is under way.
func TestWatchInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	root := t.TempDir()
	growing := runtest.Options{Iterations: 40, Every: 5, Prompts: 30, Live: true, Text: hostile, Talks: true}
	runtest.Write(t, filepath.Join(root, "first"), runtest.Options{Iterations: 40, Every: 10, Prompts: 9, Seed: 1})
	runtest.Write(t, filepath.Join(root, "second <b onclick=1>&amp;"), runtest.Options{Iterations: 30, Every: 10, Prompts: 9, Seed: 2, Text: hostile})
	at := runtest.Write(t, filepath.Join(root, "third"), growing)
	_, url := serving(t, root)
	b.Size(1400, 900, false, false)
	b.Open(url)
	b.Until(`document.querySelectorAll("tr[data-run]").length === 3 && document.querySelector(".chart canvas")`, 20*time.Second)
	for _, size := range sizes {
		b.Size(size.width, size.height, size.width < 700, size.dark)
		b.Eval(scrolled, nil)
		fits(t, b, size.width)
		b.Shot(*shots, "runs-"+size.name, 6000)
	}
	b.Size(1400, 900, false, false)

	// The list: sorted by every heading, found by name, curves of ticked runs alone.
	for _, sort := range []string{"name", "iterations", "gain", "fired", "written"} {
		b.Eval(`document.querySelector("[data-sort=`+sort+`]").click()`, nil)
	}
	b.Eval(`document.querySelector("[data-sort=name]").click()`, nil)
	b.Until(`document.querySelector("tr[data-run] a").textContent === "first"`, 5*time.Second)
	b.Key("/")
	b.Until(`document.activeElement.id === "find"`, 5*time.Second)
	type_(b, "#find", "thi")
	b.Until(`document.querySelectorAll("tr[data-run]").length === 1`, 5*time.Second)
	type_(b, "#find", "")
	b.Eval(`document.querySelector("tr[data-run] input").click()`, nil)
	b.Until(`document.querySelectorAll(".chart .legend button").length > 0 && ![...document.querySelectorAll(".legend button")].some((x) => x.textContent.startsWith("first"))`, 5*time.Second)

	// A run that is under way grows on the page.
	b.Eval(`[...document.querySelectorAll("tr[data-run] a")].find((a) => a.textContent === "third").click()`, nil)
	b.Until(`document.querySelectorAll(".pair canvas[data-drawn=yes]").length > 2`, 20*time.Second)
	runtest.Grow(t, at, growing, 41, 41)
	took := b.Until(`document.querySelector(".progress").textContent.startsWith("41 of")`, 10*time.Second)
	t.Logf("an iteration was on the page %v after it was written", took)
	pairs(t, b)
	walls(t, b)
	charts(t, b)
	talks(b)
	for _, key := range []string{"j", "j", "k", "b"} {
		b.Key(key)
	}
	b.Until(`document.querySelectorAll("tr[data-run]").length === 3`, 5*time.Second)
	b.Eval(`location.hash = "#run=nowhere"`, nil)
	b.Until(`document.body.textContent.includes("there is no run of this address")`, 5*time.Second)

	// A new run appears, and one whose folder is gone does not stay.
	b.Eval(`location.hash = ""`, nil)
	runtest.Write(t, filepath.Join(root, "fourth"), runtest.Options{Iterations: 1, Prompts: 2, Live: true})
	t.Logf("a new run was on the page after %v", b.Until(`document.querySelectorAll("tr[data-run]").length === 4`, 10*time.Second))
	if err := os.RemoveAll(filepath.Join(root, "first")); err != nil {
		t.Fatal(err)
	}
	b.Until(`document.querySelectorAll("tr[data-run]").length === 3`, 10*time.Second)

	var planted bool
	if b.Eval(`Boolean(window.planted) || document.querySelector("#app img[src=x], #app b[onclick]") !== null`, &planted); planted {
		t.Error("a text of a run became markup")
	}
	if m := b.Messages(); len(m) > 0 {
		t.Errorf("the console says %s", m)
	}
}

var sizes = []struct {
	name          string
	width, height int
	dark          bool
}{{"light-1400", 1400, 900, false}, {"dark-1400", 1400, 900, true}, {"light-390", 390, 844, false}, {"dark-390", 390, 844, true}}

// fits fails where the page is wider than the window.
func fits(t *testing.T, b *browsertest.Browser, width int) {
	t.Helper()
	var wide float64
	if b.Eval("document.documentElement.scrollWidth", &wide); wide > float64(width) {
		t.Errorf("at %d the page is %v wide", width, wide)
	}
}

// type_ writes into a field.
func type_(b *browsertest.Browser, field, text string) {
	b.Eval(fmt.Sprintf(`(() => { const f = document.querySelector(%q); f.value = %q; f.dispatchEvent(new Event("input", {bubbles: true})); })()`, field, text), nil)
}

// pairs uses the filters of pictures before and after.
func pairs(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	order := map[string]string{}
	for _, by := range []string{"best", "worst", "improved", "worsened", "changed", "all"} {
		b.Eval(`document.querySelector("#pictures [data-choice=`+by+`]").click()`, nil)
		b.Until(`document.querySelector("#pictures [data-choice=`+by+`]").getAttribute("aria-pressed") === "true"`, 5*time.Second)
		time.Sleep(150 * time.Millisecond) // pictures are compared
		var first string
		b.Eval(`document.querySelector(".pair").dataset.prompt + ":" + document.querySelectorAll(".pair b")[1].textContent`, &first)
		order[by] = first
	}
	if order["best"] == order["worst"] || order["improved"] == order["worsened"] || strings.Split(order["best"], ":")[1] < strings.Split(order["worst"], ":")[1] {
		t.Errorf("filters show first %v", order)
	}
	type_(b, "#pictures input[type=search]", "no prompt says this")
	b.Until(`document.querySelectorAll(".pair").length === 0`, 5*time.Second)
	type_(b, "#pictures input[type=search]", "")
	b.Until(`document.querySelectorAll(".pair").length === 24`, 5*time.Second)
	b.Eval(`document.querySelector("#pictures .more button").click()`, nil)
	b.Until(`document.querySelectorAll(".pair").length === 30`, 5*time.Second)
	b.Eval(`(() => { const s = document.querySelector("[data-control=after]"); s.value = s.options[0].value; s.dispatchEvent(new Event("change")); })()`, nil)
	b.Until(`document.querySelector(".pair").textContent.includes("after 5 ")`, 5*time.Second)
	b.Eval(`document.querySelector(".pair").click()`, nil)
	b.Until(`document.querySelector("dialog[open] .stage canvas[data-drawn=yes]")`, 5*time.Second)
	b.Shot(*shots, "pair", 900)
	var was string
	b.Eval(`document.querySelector("dialog .words .prompt").textContent`, &was)
	b.Key("ArrowRight")
	b.Until(fmt.Sprintf(`document.querySelector("dialog .words .prompt").textContent !== %q`, was), 5*time.Second)
	b.Eval(`document.querySelector("dialog .close").click()`, nil)
	b.Until(`!document.querySelector("dialog[open]")`, 5*time.Second)
}

// walls uses the filters of pictures by iteration.
func walls(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	for choice, says := range map[string]string{"oldest": "1 · ", "newest": "41 · "} {
		b.Eval(`document.querySelector("#iterations [data-choice=`+choice+`]").click()`, nil)
		b.Until(`document.querySelector(".kept span").textContent.startsWith("`+says+`")`, 5*time.Second)
	}
	for _, choice := range []string{"best", "worst", "both", "highest", "lowest"} {
		b.Eval(`document.querySelector("#iterations [data-choice=`+choice+`]").click()`, nil)
		b.Until(`document.querySelectorAll(".kept").length === 24`, 5*time.Second)
	}
	b.Eval(`document.querySelector("#iterations .wall + .more button").click()`, nil)
	b.Until(`document.querySelectorAll(".kept").length === 48`, 5*time.Second)
	b.Eval(`document.querySelector(".kept").scrollIntoView()`, nil)
	b.Until(`document.querySelector(".kept img").naturalWidth === 64`, 5*time.Second)
	b.Eval(`document.querySelector(".kept").click()`, nil)
	b.Until(`document.querySelector("dialog[open] .stage img")`, 5*time.Second)
	b.Eval(`document.querySelector("dialog .close").click()`, nil)
	b.Eval(`document.querySelector(".frames button").click()`, nil)
	b.Until(`document.querySelector("dialog[open] .stage canvas")`, 5*time.Second)
	b.Eval(`document.querySelector("dialog .close").click()`, nil)
}

// charts uses smoothing, the pointer, the legend and the search.
func charts(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	b.Eval(`document.querySelector("#curves").scrollIntoView()`, nil)
	b.Until(`document.querySelectorAll("#curves canvas").length > 3`, 10*time.Second)
	b.Eval(`(() => { const s = document.querySelector("[data-control=smoothing]"); s.value = 0.8; s.dispatchEvent(new Event("input")); })()`, nil)
	var at struct{ X, Y float64 }
	b.Eval(`(() => { const r = document.querySelector("#curves .u-over").getBoundingClientRect(); return {X: r.left + r.width / 2, Y: r.top + r.height / 2}; })()`, &at)
	b.Move(at.X, at.Y)
	b.Until(`[...document.querySelectorAll("#curves .where")].filter((w) => w.textContent.startsWith("iteration ")).length > 1`, 5*time.Second) // in all charts
	b.Until(`/^0\.\d+$/.test(document.querySelector("#curves .legend b").textContent)`, 5*time.Second)
	b.Eval(`document.querySelector("#curves .legend button").click()`, nil)
	b.Until(`document.querySelector("#curves .legend button").getAttribute("aria-pressed") === "false"`, 5*time.Second)
	type_(b, "#curves input[type=search]", "gradient")
	b.Until(`[...document.querySelectorAll("#curves .chart")].filter((c) => !c.hidden).length === 1`, 5*time.Second)
	type_(b, "#curves input[type=search]", "")
	b.Eval(`document.querySelector("#curves .plot").focus()`, nil)
	b.Key("ArrowRight")
	b.Eval(scrolled, nil)
	for _, size := range sizes {
		b.Size(size.width, size.height, size.width < 700, size.dark)
		b.Eval(scrolled, nil)
		fits(t, b, size.width)
		b.Shot(*shots, "run-"+size.name, 14000)
	}
	b.Size(1400, 900, false, false)
}

// talks uses the filters of conversations, and the page's parts.
func talks(b *browsertest.Browser) {
	b.Eval(`document.querySelector("#conversations [data-choice='1']").click()`, nil)
	b.Until(`document.querySelectorAll(".talk").length === 3`, 5*time.Second)
	b.Eval(`document.querySelector("#conversations [data-choice=worse]").click()`, nil)
	b.Until(`document.querySelectorAll(".talk").length === 1`, 5*time.Second)
	for _, part := range []string{"pictures", "iterations", "curves", "conversations", "details"} {
		b.Eval(`document.querySelector("[data-part=`+part+`]").click()`, nil)
	}
	b.Eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`, nil)
	b.Until(`document.querySelector("#details pre").textContent.includes("embed:tiny-sd3")`, 5*time.Second)
}

// TestMany: 50 runs of 1,000 iterations are on the page soon after its opening, and it scrolls; -v says how soon.
func TestMany(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 50 runs of 1,000 iterations; left out by -short")
	}
	b := browsertest.Start(t)
	root := t.TempDir()
	first := runtest.Write(t, filepath.Join(root, "run 00"), runtest.Options{Iterations: 1000, Every: 50, Prompts: 20, NoPictures: true})
	for i := 1; i < 50; i++ {
		if err := os.CopyFS(filepath.Join(root, fmt.Sprintf("run %02d", i)), os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(first, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	b.Size(1400, 900, false, false)
	began := time.Now()
	s, url := serving(t, root)
	b.Open(url)
	b.Until(`document.querySelectorAll("tr[data-run]").length === 50`, 60*time.Second)
	t.Logf("nothing read yet: 50 runs of 1,000 iterations (ledgers of %d bytes) were on the page after %v", info.Size(), time.Since(began))
	for {
		s.mu.RLock()
		n := len(s.summaries)
		s.mu.RUnlock()
		if n == 50 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Open("about:blank")
	b.Open(url)
	opened := b.Until(`document.querySelectorAll("tr[data-run]").length === 50`, 60*time.Second)
	t.Logf("all read: the page was there after %v", opened)
	if opened > 15*time.Second { // a second on a machine that does nothing else; more than this is work that was not meant
		t.Errorf("the page took %v", opened)
	}
	var frames struct{ N, Slow, Worst float64 }
	b.Eval(`(async () => {
		const times = []; let last = performance.now();
		for (let i = 0; i < 120; i++) { scrollBy(0, 40); await new Promise(requestAnimationFrame); const now = performance.now(); times.push(now - last); last = now; }
		return {N: times.length, Slow: times.filter((x) => x > 34).length, Worst: Math.max(...times)};
	})()`, &frames)
	t.Logf("of %v frames while it scrolled, %v took longer than two frames of 60 a second; the longest %.0f ms", frames.N, frames.Slow, frames.Worst)
}
