package call

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRedirects: a request follows its server to another path, and to no other host.
func TestRedirects(t *testing.T) {
	var leaked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { leaked.Add(1) }))
	defer elsewhere.Close()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/get":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/beside":
			http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}
	}))
	defer s.Close()
	c := NewCaller(quick(), nil)
	for path, says := range map[string]string{"/away": "another host", "/get": "POST into GET"} {
		asked = 0
		if reply, err := c.Post(t.Context(), s.URL+path, nil, []byte("private")); err == nil || !strings.Contains(err.Error(), says) || asked != 1 {
			t.Errorf("%s: %q, %v, asked %d times", path, reply, err, asked)
		}
	}
	if reply, err := c.Post(t.Context(), s.URL+"/beside", nil, []byte("private")); string(reply) != "private" || err != nil {
		t.Errorf("%q, %v", reply, err)
	}
	if leaked.Load() != 0 {
		t.Error("the request reached another host")
	}
}

// TestShown: a server's words, its status line among them, obey no terminal.
func TestShown(t *testing.T) {
	if got := Shown([]byte("a\x1b]0;x\n\u009bb\u202e")); got != `a\u001b]0;x \u009bb\u202e` {
		t.Errorf("%q", got)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(c, "HTTP/1.1 403 \x1b]0;pwn\r\nContent-Length: 0\r\n\r\n")
		_ = c.Close()
	}))
	defer s.Close()
	if _, err := NewCaller(quick(), nil).Post(t.Context(), s.URL, nil, nil); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}
