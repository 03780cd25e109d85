package watch

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/view/report"
)

// Server serves the page and its requests. It is an http.Handler.
type Server struct {
	paths []string
	hosts []string
	token string
	mux   *http.ServeMux

	mu        sync.RWMutex
	dirs      map[string]string // of runs, by their names in addresses
	summaries map[string]report.Summary
	pages     map[*page]bool

	read sync.Mutex // a page's documents are read one after another
	kept map[string]*report.Reader
}

// Options are a server's.
type Options struct {
	Hosts []string // names that a browser may call the server by, beside localhost and numbers
	Token string   // asked of every reader: ?token= in the first address, then a cookie; or a bearer's. "": nothing is asked
}

// New is a server over folders: of runs, or of folders with runs.
func New(paths []string, o Options) *Server {
	s := &Server{paths: paths, hosts: o.Hosts, token: o.Token, mux: http.NewServeMux(), dirs: map[string]string{}, summaries: map[string]report.Summary{}, pages: map[*page]bool{}, kept: map[string]*report.Reader{}}
	s.mux.HandleFunc("GET /{$}", s.text("text/html; charset=utf-8", report.Shell))
	s.mux.HandleFunc("GET /app.js", s.text("text/javascript; charset=utf-8", plainText(report.Script)))
	s.mux.HandleFunc("GET /app.css", s.text("text/css; charset=utf-8", plainText(report.Sheet)))
	s.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.mux.HandleFunc("GET /events", s.events)
	s.mux.HandleFunc("GET /api/runs/{id}", s.document)
	s.mux.HandleFunc("GET /files/{id}/{name...}", s.file)
	s.mux.HandleFunc("GET /metrics", s.metrics)
	return s
}

// plainText is a text as bytes.
func plainText(of func() (string, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		text, err := of()
		return []byte(text), err
	}
}

// text serves a part of the program.
func (s *Server) text(kind string, of func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := of()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // a browser that left needs nothing
	}
}

// dir is a run's folder.
func (s *Server) dir(id string) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	dir, ok := s.dirs[id]
	return dir, ok
}

// mostKept limits the runs whose position is remembered, so that only new lines are read.
const mostKept = 4

// document is all of a run.
func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	dir, ok := s.dir(id)
	if !ok {
		http.Error(w, "there is no run of this address", http.StatusNotFound)
		return
	}
	d, err := s.documentOf(id, dir)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d) // a browser that left needs nothing
}

func (s *Server) documentOf(id, dir string) (*report.Document, error) {
	s.read.Lock()
	defer s.read.Unlock()
	reader := s.kept[id]
	if reader == nil {
		if len(s.kept) >= mostKept {
			clear(s.kept)
		}
		reader = report.NewReader(dir)
		s.kept[id] = reader
	}
	d, err := reader.Document(addresses(id, dir))
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	d.ID, d.Name, d.Written = id, s.summaries[id].Name, s.summaries[id].Written
	return d, nil
}

// pictures is the folder of a run that pages may look into.
const pictures = "images/"

// addresses are where a page finds pictures of a run. A sheet is written anew where a run goes on from before it, so
// the address has its time.
func addresses(id, dir string) report.Source {
	return func(name string) string {
		if !shown(name) {
			return ""
		}
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || !info.Mode().IsRegular() {
			return ""
		}
		return fmt.Sprintf("files/%s/%s?%d", id, name, info.ModTime().UnixMilli())
	}
}

// shown reports whether a name is that of a picture that pages may show.
func shown(name string) bool {
	return strings.HasPrefix(name, pictures) && path.Clean(name) == name && report.MediaType(name) != "" && !strings.ContainsAny(name, "\\?#%")
}

// file serves a picture of a run. A file outside the folder, or behind a link, does not exist for it.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	dir, ok := s.dir(r.PathValue("id"))
	if !ok || !shown(name) {
		http.NotFound(w, r)
		return
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer root.Close()
	info, err := root.Lstat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", report.MediaType(name))
	w.Header().Set("Cache-Control", "private, max-age=86400") // its address has its time
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// ServeHTTP answers readers alone. A page of the network that calls this machine by a name of its own (DNS rebinding)
// is refused by the name, one that puts the page in a frame or asks from elsewhere by the browser, through headers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", report.Guard("'self'", "'self'")+"; img-src 'self'; media-src 'self'; connect-src 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !s.known(r.Host) {
		http.Error(w, "this server is not called "+r.Host+"\nhint: 'darkroom watch --host "+nameOf(r.Host)+"' answers to this name", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "nothing can be changed here", http.StatusMethodNotAllowed)
		return
	}
	if s.token != "" && !s.allowed(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

// cookie is the name of the cookie that keeps a token, so that addresses after the first are without it. Browsers send
// cookies to all ports of a host: each token has a name of its own, since one host may have several servers.
func cookie(token string) string {
	sum := sha256.Sum256([]byte("darkroom watch " + token))
	return "darkroom_token_" + hex.EncodeToString(sum[:4])
}

// allowed compares a reader's token. An address with it is answered by the same one without it and a cookie: no link,
// no history and no picture of the screen has it.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request) bool {
	same := func(token string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1 }
	if r.URL.Path == "/" && same(r.URL.Query().Get("token")) {
		http.SetCookie(w, &http.Cookie{Name: cookie(s.token), Value: s.token, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		w.Header().Set("Location", "./")
		w.WriteHeader(http.StatusSeeOther)
		return false
	}
	if kept, err := r.Cookie(cookie(s.token)); err == nil && same(kept.Value) {
		return true
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(token) {
		return true
	}
	http.Error(w, "this page asks for the token of 'darkroom watch --token': ADDRESS/?token=TOKEN", http.StatusUnauthorized)
	return false
}

// known reports whether a browser may call the server so: a number cannot be rebound to this machine by a stranger's
// name server.
func (s *Server) known(host string) bool {
	name := nameOf(host)
	return net.ParseIP(name) != nil || strings.EqualFold(name, "localhost") || slices.ContainsFunc(s.hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// nameOf is a host without its port.
func nameOf(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return strings.Trim(name, "[]")
}

// mostDeep is how far below a given folder runs are looked for: a grid of an ablation has its runs two levels below
// the folder of all.
const mostDeep = 3

// find lists the folders of runs at or below some paths, in order, each once.
func find(paths []string) []string {
	var all []string
	seen := map[string]bool{}
	var look func(dir string, deep int)
	look = func(dir string, deep int) {
		if _, err := os.Lstat(filepath.Join(dir, folder.Config)); err == nil {
			if id := identity(dir); !seen[id] {
				seen[id] = true
				all = append(all, dir)
			}
			return
		}
		if deep == 0 {
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return // it is not there yet, or not to be read
		}
		for _, e := range entries {
			if e.IsDir() && e.Name()[0] != '.' {
				look(filepath.Join(dir, e.Name()), deep-1)
			}
		}
	}
	for _, p := range paths {
		look(p, mostDeep)
	}
	return all
}

// identity names a folder in addresses: nothing of its path can be read from it, or written into it.
func identity(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:6])
}
