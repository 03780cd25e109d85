package pull

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pipe is a small pipeline with a repository's other files.
func pipe() map[string]string {
	weights := strings.Repeat("weights of a network; ", 20000)
	return map[string]string{
		".gitattributes":          "*.safetensors lfs",
		"README.md":               "# A model",
		"LICENSE.md":              "free",
		"sd3_medium.safetensors":  weights,
		"model_index.json":        `{"_class_name": "StableDiffusion3Pipeline", "transformer": ["diffusers", "SD3Transformer2DModel"], "tokenizer": ["transformers", "CLIPTokenizer"], "text_encoder_3": [null, null]}`,
		"transformer/config.json": `{"n": 1}`,
		"transformer/diffusion_pytorch_model.safetensors":      weights,
		"transformer/diffusion_pytorch_model.fp16.safetensors": weights[:9000],
		"transformer/diffusion_pytorch_model.bin":              "pickled",
		"tokenizer/vocab.json":                                 "{}",
		"tokenizer/merges.txt":                                 "a b\n",
		"text_encoder_3/config.json":                           "{}",
		"transformer/onnx/model.onnx":                          "o",
	}
}

const big = "transformer/diffusion_pytorch_model.safetensors"

// wanted are the names that pull keeps of pipe.
var wanted = []string{"LICENSE.md", "model_index.json", "tokenizer/merges.txt", "tokenizer/vocab.json", "transformer/config.json", big}

func options(h *hub, out string) Options {
	return Options{Repo: "o/m", Out: out, Endpoint: h.URL, Tries: 3, Pause: time.Millisecond, Stall: 200 * time.Millisecond, Parallel: 2}
}

// content is the files of a folder, by name; nil for a missing folder.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// whole checks that the folder holds the wanted files and nothing else.
func whole(t *testing.T, h *hub, out string) {
	t.Helper()
	got := content(t, out)
	delete(got, recordName)
	if len(got) != len(wanted) {
		t.Errorf("%d files came, not %d: %v", len(got), len(wanted), slices.Sorted(maps.Keys(got)))
	}
	for _, name := range wanted {
		if got[name] != h.files[name] {
			t.Errorf("%s has other bytes than the hub's", name)
		}
	}
}

func TestPull(t *testing.T) {
	h := newHub(t, pipe())
	h.page = 3
	h.token = "secret"
	out := filepath.Join(t.TempDir(), "m")
	o := options(h, out)
	o.Token = "secret"
	var last, all int64
	o.Parallel, o.Progress = 1, func(done, sum int64) { last, all = done, sum }
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, h, out)
	if r.Files != len(wanted) || r.Skipped != len(h.files)-len(wanted) || r.Commit != commit || r.Fetched != r.Bytes || last != all || all != r.Bytes {
		t.Errorf("the report is %+v; progress ended at %d of %d", r, last, all)
	}
	sent := h.sent.Load()
	if r, err = Run(context.Background(), o); err != nil || !r.There || h.sent.Load()-sent > 1000 {
		t.Errorf("a second pull: %+v, %v, %d bytes", r, err, h.sent.Load()-sent)
	}
	if err := os.Truncate(filepath.Join(out, big), 5); err != nil {
		t.Fatal(err)
	}
	if _, err = Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), big+" is missing or was changed") {
		t.Errorf("a folder with a shortened file: %v", err)
	}
}

// Mistakes of a server, and their effects: a whole folder, or none and an error that says why.
func TestFaults(t *testing.T) {
	half := func(body string) int { return len(body) / 2 }
	for _, c := range []struct {
		name  string
		serve func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool
		want  string // of the error; "": none
	}{
		{"breaks off twice", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 2 {
				return false
			}
			h.send(&cut{w, 100000}, r, body)
			return true
		}, ""},
		{"breaks off a hundred times, always further on", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			h.send(&cut{w, 5000}, r, body)
			return true
		}, ""},
		{"never sends a byte", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			h.send(&cut{w, 0}, r, body)
			return true
		}, "(3 tries)"},
		{"breaks off and knows no ranges", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 20 {
				panic("it is asked for ever")
			}
			r.Header.Del("Range")
			h.send(&cut{w, 100000}, r, body)
			return true
		}, "it knows no ranges) (3 tries)"},
		{"sends two bytes a try", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			h.send(&cut{w, 2}, r, body)
			return true
		}, "(3 tries)"},
		{"sends a false range", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if r.Header.Get("Range") != "" {
				r.Header.Set("Range", "bytes=1-")
			}
			h.send(&cut{w, 100000}, r, body)
			return true
		}, "(3 tries)"},
		{"redirects to a file", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
			return true
		}, "which is no address of a hub"},
		{"lies once", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 1 {
				return false
			}
			h.send(w, r, "x"+body[1:])
			return true
		}, ""},
		{"lies always", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			h.send(w, r, "x"+body[1:])
			return true
		}, "do not have the hash of the hub's list, twice"},
		{"sends too much", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			h.send(w, r, body+"more")
			return true
		}, "more than the"},
		{"sends too little, as if it were all", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 1 {
				return false
			}
			h.send(w, r, body[:half(body)])
			return true
		}, ""},
		{"ignores ranges", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			r.Header.Del("Range")
			if nth == 1 {
				h.send(&cut{w, 100000}, r, body)
				return true
			}
			h.send(w, r, body)
			return true
		}, ""},
		{"sends another range", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			switch {
			case nth == 1:
				h.send(&cut{w, 100000}, r, body)
			case offset(r) > 0:
				r.Header.Set("Range", "bytes=7-")
				h.send(w, r, body)
			default:
				h.send(w, r, body)
			}
			return true
		}, ""},
		{"has no bytes there", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth == 1 {
				h.send(&cut{w, 100000}, r, body)
				return true
			}
			if offset(r) > 0 {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
			return false
		}, ""},
		{"is overloaded for a while", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 2 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader([]int{0, 503, 429}[nth])
			return true
		}, ""},
		{"fails for ever", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			w.WriteHeader(502)
			return true
		}, "answers 502 (3 tries)"},
		{"loses the file", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			http.NotFound(w, r)
			return true
		}, "no such repository, revision or file"},
		{"stalls", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			if nth > 1 {
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write([]byte(body[:1000]))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, ""},
		{"redirects in a circle", func(h *hub, w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}, "more than 10 redirects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t, pipe())
			var mended atomic.Bool
			h.serve = func(w http.ResponseWriter, r *http.Request, name, body string, nth int) bool {
				return name == big && !mended.Load() && c.serve(h, w, r, name, body, nth)
			}
			out := filepath.Join(t.TempDir(), "m")
			_, err := Run(context.Background(), options(h, out))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				whole(t, h, out)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), big) {
				t.Errorf("the error is %v, not %q", err, c.want)
			}
			if content(t, out) != nil {
				t.Error("a folder was left that is not whole")
			}
			mended.Store(true) // and the pull continues
			if _, err := Run(context.Background(), options(h, out)); err != nil {
				t.Fatal(err)
			}
			whole(t, h, out)
		})
	}
}

// cut is a connection that breaks after some bytes of a body.
type cut struct {
	http.ResponseWriter
	after int
}

func (c *cut) Write(p []byte) (int, error) {
	if len(p) <= c.after {
		return c.ResponseWriter.Write(p)
	}
	if c.Header().Get("Content-Length") == "" {
		c.Header().Set("Content-Length", fmt.Sprint(len(p)))
	}
	_, _ = c.ResponseWriter.Write(p[:c.after])
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}
