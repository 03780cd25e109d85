package pull

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// hub is a server that speaks the protocol, and lies by its settings.
type hub struct {
	*httptest.Server
	files map[string]string
	large map[string]bool // those with a SHA-256
	token string          // that it wants, if any
	page  int             // entries of a page, 0 for all

	// serve sends a file's bytes in the hub's place; false: the hub goes on as usual.
	serve func(w http.ResponseWriter, r *http.Request, name, body string, nth int) bool
	lists func(w http.ResponseWriter, r *http.Request) bool

	lock  sync.Mutex
	asked map[string]int // how often, by file
	sent  atomic.Int64   // bytes
}

func newHub(t *testing.T, files map[string]string) *hub {
	t.Helper()
	h := &hub{files: files, large: map[string]bool{}, asked: map[string]int{}}
	for name := range files {
		h.large[name] = strings.HasSuffix(name, ".safetensors")
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.answer))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) answer(w http.ResponseWriter, r *http.Request) {
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		w.Header().Set("X-Error-Code", "GatedRepo")
		w.Header().Set("X-Error-Message", "Access is restricted.\u009b31m")
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/api/") && h.lists != nil && h.lists(w, r):
	case path == "/api/models/o/m/revision/main" || path == "/api/models/o/m/revision/"+commit:
		fmt.Fprintf(w, `{"sha": %q}`, commit)
	case path == "/api/models/o/m/tree/"+commit:
		h.list(w, r)
	case strings.HasPrefix(path, "/o/m/resolve/"+commit+"/"):
		h.file(w, r, strings.TrimPrefix(path, "/o/m/resolve/"+commit+"/"))
	default:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.NotFound(w, r)
	}
}

type lfs struct {
	OID  string `json:"oid"`
	Size int    `json:"size"`
}

type entry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"`
	Size int    `json:"size"`
	LFS  *lfs   `json:"lfs,omitempty"`
}

func (h *hub) list(w http.ResponseWriter, r *http.Request) {
	names := slices.Sorted(maps.Keys(h.files))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := len(names)
	if h.page > 0 && from+h.page < to {
		to = from + h.page
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
	}
	all := []entry{{Type: "directory", Path: "unet", OID: commit}}
	for _, name := range names[from:to] {
		body := h.files[name]
		g := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(body), body))
		e := entry{Type: "file", Path: name, OID: hex.EncodeToString(g[:]), Size: len(body)}
		if h.large[name] {
			s := sha256.Sum256([]byte(body))
			e.LFS = &lfs{OID: hex.EncodeToString(s[:]), Size: len(body)}
		}
		all = append(all, e)
	}
	_ = json.NewEncoder(w).Encode(all)
}

func (h *hub) file(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := h.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h.lock.Lock()
	h.asked[name]++
	nth := h.asked[name]
	h.lock.Unlock()
	if h.serve != nil && h.serve(w, r, name, body, nth) {
		return
	}
	h.send(w, r, body)
}

// send is an honest answer, with ranges.
func (h *hub) send(w http.ResponseWriter, r *http.Request, body string) {
	from := offset(r)
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)-from))
		w.WriteHeader(http.StatusPartialContent)
	}
	n, _ := w.Write([]byte(body[from:]))
	h.sent.Add(int64(n))
}

// offset is the byte from which on a request wants a file.
func offset(r *http.Request) int {
	var from int
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	return from
}
