package watch

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// watched is a server that has read a folder of runs once.
func watched(t *testing.T, root string) *Server {
	t.Helper()
	s := New([]string{root}, Options{Hosts: []string{"box.example"}})
	s.look(map[string]*followed{})
	return s
}

// get is an answer.
func get(s *Server, method, host, path string) *http.Response {
	r := httptest.NewRequest(method, "http://"+host+"/", nil)
	r.URL.Path = path
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// TestGuard: only readers that call the server by a name of its own are answered,
// and every answer has the page's policy.
func TestGuard(t *testing.T) {
	s := watched(t, t.TempDir())
	for _, c := range []struct {
		method, host string
		status       int
	}{
		{"GET", "127.0.0.1:7860", 200}, {"HEAD", "localhost:7860", 200}, {"GET", "[::1]:7860", 200}, {"GET", "box.example", 200}, {"GET", "10.0.0.7:80", 200},
		{"GET", "evil.example:7860", 421}, {"GET", "127.0.0.1.evil.example", 421}, {"GET", "localhost.evil.example:7860", 421},
		{"POST", "localhost", 405}, {"DELETE", "localhost", 405}, {"OPTIONS", "localhost", 405},
	} {
		a := get(s, c.method, c.host, "/")
		policy := a.Header.Get("Content-Security-Policy")
		if a.StatusCode != c.status || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s of %s: %s, policy %q", c.method, c.host, a.Status, policy)
		}
	}
}

// TestFiles: pictures of a run are served, and nothing else of the folder or beside it.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	dir := runtest.Write(t, filepath.Join(root, "run"), runtest.Options{Iterations: 2, Every: 1, Prompts: 2})
	secret := filepath.Join(root, "secret.png")
	for _, err := range []error{os.WriteFile(secret, []byte("a secret"), 0o644), os.WriteFile(filepath.Join(dir, "images", "page.html"), []byte("<script>"), 0o644),
		os.WriteFile(filepath.Join(dir, "beside.png"), []byte("beside"), 0o644), os.Mkdir(filepath.Join(dir, "images", "folder.png"), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := watched(t, root)
	id := identity(dir)
	for path, status := range map[string]int{"/files/" + id + "/images/000001_best.png": 200, "/files/nowhere/images/000001_best.png": 404, "/api/runs/" + id: 200, "/api/runs/nowhere": 404,
		"/app.js": 200, "/app.css": 200, "/elsewhere": 404} {
		if a := get(s, "GET", "localhost", path); a.StatusCode != status {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	for _, link := range []string{"link.png", "folder"} {
		target := secret
		if link == "folder" {
			target = root
		}
		if err := os.Symlink(target, filepath.Join(dir, "images", link)); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
	}
	for path, status := range map[string]int{
		"images/heldout_before.png": 200, "images/000001_best.png": 200, "images/page.html": 404, "images/link.png": 404, "images/folder/secret.png": 404, "images/folder.png": 404,
		"beside.png": 404, "config.toml": 404, "images/../beside.png": 404, "../secret.png": 404, "images/../../secret.png": 404, "images/none.png": 404, "": 404,
	} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.SetPathValue("id", id)
		r.SetPathValue("name", path)
		w := httptest.NewRecorder()
		s.file(w, r)
		if w.Code != status || strings.Contains(w.Body.String(), "secret") || status == 200 && w.Header().Get("Content-Type") != "image/png" {
			t.Errorf("%s: %d %s", path, w.Code, w.Header())
		}
	}
}

// TestBroken: a folder that cannot be read is listed with the reason, and the others with it.
func TestBroken(t *testing.T) {
	root := t.TempDir()
	runtest.Write(t, filepath.Join(root, "whole"), runtest.Options{Iterations: 3, Prompts: 2})
	broken := runtest.Write(t, filepath.Join(root, "broken"), runtest.Options{Iterations: 3, Prompts: 2})
	path := filepath.Join(broken, "ledger.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("{no json}\n"), text...), 0o644); err != nil {
		t.Fatal(err)
	}
	s := watched(t, root)
	if len(s.summaries) != 2 {
		t.Fatalf("%d runs are listed", len(s.summaries))
	}
	if one := s.summaries[identity(broken)]; !strings.Contains(one.Why, "ledger.jsonl:1: invalid character") || one.Status != "cannot be read" || one.Iterations != 3 {
		t.Errorf("the broken run is %+v", one)
	}
	if one := s.summaries[identity(filepath.Join(root, "whole"))]; one.Why != "" || one.Iterations != 3 {
		t.Errorf("the whole run is %+v", one)
	}
}

// TestMetrics: the metrics for Prometheus, with names that need quoting.
func TestMetrics(t *testing.T) {
	root := t.TempDir()
	runtest.Write(t, filepath.Join(root, `a "b" \c`), runtest.Options{Iterations: 10, Every: 5, Prompts: 4, Live: true, Text: " "})
	a := get(watched(t, root), "GET", "localhost", "/metrics")
	body, err := io.ReadAll(a.Body)
	if err != nil || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%v, %v", err, a.Header)
	}
	text := string(body)
	const run = `run="a \"b\" \\c"`
	for _, want := range []string{"darkroom_runs 1\n", "darkroom_iteration{" + run + "} 10\n", "darkroom_iterations_planned{" + run + "} 10\n", "darkroom_under_way{" + run + "} 1\n",
		"darkroom_reward{" + run + "} 0.", "darkroom_gain{" + run + `,reward="total",kind="total",bound="low"} 0.`, "darkroom_heldout{" + run + `,reward="aesthetic",kind="gold"} `,
		"darkroom_monitors_fired{" + run + "} 1\n", "darkroom_seconds{" + run + "} 36", "# TYPE darkroom_gain gauge\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) { // as the format's grammar has it
		if !strings.HasPrefix(line, "# ") && !metricLine.MatchString(strings.TrimSpace(line)) {
			t.Errorf("no line of the format: %q", line)
		}
	}
}

var metricLine = regexp.MustCompile(`^[a-z_]+(\{[a-z_]+="([^"\\]|\\["\\n])*"(,[a-z_]+="([^"\\]|\\["\\n])*")*\})? -?[0-9.e+-]+$`)

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

// TestToken: with a token nothing is answered without it; the first address with it leaves a cookie and names itself
// without the token, below a proxy's path too.
func TestToken(t *testing.T) {
	s := New([]string{t.TempDir()}, Options{Hosts: []string{"abc.proxy.example"}, Token: "word"})
	ask := func(path string, set func(r *http.Request)) *http.Response {
		r := httptest.NewRequest("GET", "http://abc.proxy.example"+path, nil)
		if set != nil {
			set(r)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	first := ask("/?token=word", nil)
	if first.StatusCode != http.StatusSeeOther || first.Header.Get("Location") != "./" || len(first.Cookies()) != 1 || !first.Cookies()[0].HttpOnly {
		t.Fatalf("%s, %q, %v", first.Status, first.Header.Get("Location"), first.Cookies())
	}
	kept := func(r *http.Request) { r.AddCookie(first.Cookies()[0]) }
	for _, c := range []struct {
		path   string
		set    func(r *http.Request)
		status int
	}{
		{"/", kept, 200}, {"/app.js", kept, 200}, {"/?token=word", kept, 303}, {"/?token=wort", kept, 200}, {"/metrics", func(r *http.Request) { r.Header.Set("Authorization", "Bearer word") }, 200},
		{"/", nil, 401}, {"/?token=", nil, 401}, {"/?token=wor", nil, 401}, {"/metrics?token=word", nil, 401}, {"/api/runs/x", nil, 401}, {"/app.js", nil, 401},
		{"/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie("word"), Value: "wort"}) }, 401}, {"/metrics", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		{"/", func(r *http.Request) { kept(r); r.Host = "evil.example" }, 421},
	} {
		if a := ask(c.path, c.set); a.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", c.path, a.Status, c.status)
		}
	}
	if other := cookie("another"); other == first.Cookies()[0].Name {
		t.Errorf("servers with other tokens share the cookie %s", other)
	}
}

// TestUnknownName: the answer names the option that makes the name known.
func TestUnknownName(t *testing.T) {
	a := get(watched(t, t.TempDir()), "GET", "abc-7868.proxy.example:443", "/")
	if text, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(text), "darkroom watch --host abc-7868.proxy.example'") {
		t.Errorf("%s, %v", text, err)
	}
}
