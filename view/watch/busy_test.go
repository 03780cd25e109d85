package watch

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// TestBusy: where changes come without a pause, the page is drawn all the same, and a row whose run says nothing new
// stays the element that it was.
func TestBusy(t *testing.T) {
	b := browsertest.Start(t)
	root := t.TempDir()
	for _, name := range []string{"busy", "quiet"} {
		runtest.Write(t, filepath.Join(root, name), runtest.Options{Iterations: 3, Prompts: 2, Live: true})
	}
	s, url := serving(t, root)
	b.Open(url)
	b.Until(`document.querySelectorAll("tr[data-run]").length === 2`, 20*time.Second)
	row := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("tr[data-run]")].find((r) => r.textContent.includes(%q))`, name)
	}
	b.Eval(row("quiet")+`.dataset.mark = "kept"`, nil)
	dir := filepath.Join(root, "busy")
	id := identity(dir)
	s.mu.RLock()
	news := s.summaries[id]
	s.mu.RUnlock()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 100; ; i++ {
			news.Iterations = i
			s.publish(dir, news)
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	b.Until(`Number(/(\d+) of/.exec(`+row("busy")+`.textContent)?.[1]) >= 100`, 10*time.Second)
	close(stop)
	<-done
	var kept bool
	if b.Eval(row("quiet")+`.dataset.mark === "kept"`, &kept); !kept {
		t.Error("news of one run built the row of another anew")
	}
}
