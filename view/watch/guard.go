package watch

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/view/report"
)

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
		http.Error(w, "this server is not called "+r.Host+"\nhint: --addr NAME:PORT says by which name it may be called", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "nothing can be changed here", http.StatusMethodNotAllowed)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// known reports whether a browser may call the server so: a number cannot be rebound to this machine by a stranger's
// name server.
func (s *Server) known(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	return net.ParseIP(name) != nil || strings.EqualFold(name, "localhost") || slices.ContainsFunc(s.hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
