package pull

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A hub's list may lie as well.
func TestLists(t *testing.T) {
	list := func(text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/tree/") {
				fmt.Fprint(w, text)
				return true
			}
			return false
		}
	}
	for _, c := range []struct {
		name  string
		lists func(w http.ResponseWriter, r *http.Request) bool
		want  string
	}{
		{"outside", list(`[{"type":"file","path":"../x.json","oid":"` + commit + `","size":1}]`), "outside the folder"},
		{"absolute", list(`[{"type":"file","path":"/etc/x.json","oid":"` + commit + `","size":1}]`), "outside the folder"},
		{"hash", list(`[{"type":"file","path":"x.json","oid":"zz","size":1}]`), "invalid hash"},
		{"size", list(`[{"type":"file","path":"x.json","oid":"` + commit + `","size":-1}]`), "size of -1"},
		{"own name", list(`[{"type":"file","path":"` + recordName + `","oid":"` + commit + `","size":1}]`), "uses itself"},
		{"no JSON", list(`<html>`), "no JSON of that kind"},
		{"nothing", list(`[]`), "none of its 0 files"},
		{"pickled alone", list(`[{"type":"file","path":"pytorch_model.bin","oid":"` + commit + `","size":1}]`), "pickled files alone"},
		{"elsewhere", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Link", `<http://elsewhere.invalid/list>; rel="next"`)
			return list(`[]`)(w, r)
		}, "not the hub's"},
		{"without end", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Link", `<`+r.URL.String()+`>; rel="next"`)
			return list(`[{"type":"file","path":"config.json","oid":"`+commit+`","size":1}]`)(w, r)
		}, "does not end"},
		{"commit", func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, `{"sha": "../../x"}`)
			return true
		}, "which is no hash"},
		{"missing", func(w http.ResponseWriter, r *http.Request) bool {
			http.NotFound(w, r)
			return true
		}, "no such repository"},
	} {
		h := newHub(t, pipe())
		h.lists = c.lists
		out := filepath.Join(t.TempDir(), "m")
		if _, err := Run(context.Background(), options(h, out)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", c.name, err, c.want)
		}
		if content(t, out) != nil {
			t.Errorf("%s: a folder was made", c.name)
		}
	}
}

func TestGated(t *testing.T) {
	h := newHub(t, pipe())
	h.token = "secret"
	o := options(h, filepath.Join(t.TempDir(), "m"))
	o.Token = "wrong"
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "o/m is gated") || !strings.Contains(err.Error(), "set HF_TOKEN") || strings.ContainsAny(err.Error(), "\u009b") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%q", err)
	}
}

// The token goes to the hub and not to the host that has the bytes, nor to another port of the hub's host.
func TestRedirect(t *testing.T) {
	for _, name := range []string{"localhost", "127.0.0.1"} {
		t.Run(name, func(t *testing.T) { redirected(t, name) })
	}
}

func redirected(t *testing.T, name string) {
	h := newHub(t, pipe())
	var told []string // written by one request, read after it
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Authorization"))
		h.send(w, r, h.files[big])
	}))
	defer store.Close()
	elsewhere := strings.Replace(store.URL, "127.0.0.1", name, 1)
	h.token = "secret"
	h.serve = func(w http.ResponseWriter, r *http.Request, file, body string, nth int) bool {
		if file == big {
			http.Redirect(w, r, elsewhere+"/blob?signature=abc", http.StatusFound)
		}
		return file == big
	}
	out := filepath.Join(t.TempDir(), "m")
	o := options(h, out)
	o.Token = "secret"
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	whole(t, h, out)
	if len(told) != 1 || told[0] != "" {
		t.Errorf("the store was told %q", told)
	}
}

// A pull that is interrupted keeps its bytes: the next one asks for the rest alone.
func TestInterrupted(t *testing.T) {
	h := newHub(t, pipe())
	ctx, stop := context.WithCancel(context.Background())
	h.serve = func(w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
		if name != big || nth > 1 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		n, _ := w.Write([]byte(body[:300000]))
		h.sent.Add(int64(n))
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
		stop()
		<-r.Context().Done()
		return true
	}
	out := filepath.Join(t.TempDir(), "m")
	if _, err := Run(ctx, options(h, out)); err == nil || !strings.Contains(err.Error(), "the same command continues there") {
		t.Fatal(err)
	}
	if content(t, out) != nil {
		t.Fatal("a folder was left that is not whole")
	}
	sent := h.sent.Load()
	r, err := Run(context.Background(), options(h, out))
	if err != nil {
		t.Fatal(err)
	}
	whole(t, h, out)
	if rest := h.sent.Load() - sent; rest > int64(len(h.files[big]))-200000 || r.Fetched >= r.Bytes {
		t.Errorf("%d bytes were sent again, %d counted", rest, r.Fetched)
	}
}

func TestOwnFoldersStay(t *testing.T) {
	h := newHub(t, pipe())
	for _, name := range []string{"m", "m.part"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		mine := filepath.Join(dir, name, "mine.txt")
		if err := os.WriteFile(mine, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(context.Background(), options(h, filepath.Join(dir, "m"))); err == nil || !strings.Contains(err.Error(), "was not made by pull") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(mine); err != nil {
			t.Error(err)
		}
	}
}
