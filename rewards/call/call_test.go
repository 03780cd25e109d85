package call

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// do is Do with the answer that was read.
func do(ctx context.Context, c *Caller, request []byte, try func(ctx context.Context) ([]byte, error), good Reader) (read []byte, err error) {
	err = c.Do(ctx, request, try, func(reply []byte) (bool, error) {
		read = reply
		return good(reply)
	})
	return read, err
}

func fine([]byte) (bool, error) { return true, nil }

// quick is a policy for tests with real connections, patient with busy machines.
func quick() Policy {
	return Policy{Timeout: 20 * time.Second, Tries: 3, Pause: time.Millisecond, Longest: 2 * time.Millisecond, Bytes: 1000}
}

func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCaller(Policy{Timeout: time.Second, Longer: time.Second, Tries: 4, Pause: time.Second, Longest: 3 * time.Second}, nil)
		for _, k := range []struct {
			name   string
			failed int // tries that fail passingly before one succeeds
			final  bool
			tries  int
			fails  bool
		}{
			{"at once", 0, false, 1, false},
			{"the third time", 2, false, 3, false},
			{"never", 9, false, 4, true},
			{"for good", 0, true, 1, true},
		} {
			tries := 0
			start := time.Now()
			reply, err := do(t.Context(), c, nil, func(context.Context) ([]byte, error) {
				tries++
				switch {
				case k.final:
					return nil, errors.New("no")
				case tries <= k.failed:
					return nil, Passing(errors.New("later"))
				}
				return []byte("yes"), nil
			}, fine)
			if tries != k.tries || (err != nil) != k.fails || err == nil && string(reply) != "yes" {
				t.Errorf("%s: %d tries, %q, %v", k.name, tries, reply, err)
			}
			// Pauses of 1, 2 and 3 s, and half of that at least.
			if d, most := time.Since(start), []time.Duration{0, 0, time.Second, 3 * time.Second, 6 * time.Second}[tries]; d > most || d < most/2 {
				t.Errorf("%s: took %v", k.name, d)
			}
		}
		// A try that hangs is given up, and the next one may take longer.
		start := time.Now()
		_, err := do(t.Context(), c, nil, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, fine)
		if d := time.Since(start); !errors.Is(err, errTimeout) || d < 13*time.Second || d > 16*time.Second {
			t.Errorf("after %v: %v", d, err)
		}
		// Who is no longer waited for is not tried again.
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		start = time.Now()
		_, err = do(ctx, c, nil, func(context.Context) ([]byte, error) { return nil, Passing(errors.New("later")) }, fine)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 500*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCaller(Policy{AtOnce: 2}, nil)
		var now, most atomic.Int32
		var all sync.WaitGroup
		for range 7 {
			all.Go(func() {
				_, err := do(t.Context(), c, nil, func(context.Context) ([]byte, error) {
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					now.Add(-1)
					return nil, nil
				}, fine)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != 2 {
			t.Errorf("%d calls at once", most.Load())
		}
	})
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	cache, err := OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCaller(quick(), cache)
	tries := 0
	ask := func(request, answer string, good Reader) (string, error) {
		reply, err := do(t.Context(), c, []byte(request), func(context.Context) ([]byte, error) {
			tries++
			return []byte(answer), nil
		}, good)
		return string(reply), err
	}
	for i, k := range []struct {
		request, answer, want string
		tries                 int
	}{{"a", "1", "1", 1}, {"a", "2", "1", 1}, {"b", "2", "2", 2}, {"", "3", "3", 3}, {"", "4", "3", 3}} {
		if got, err := ask(k.request, k.answer, fine); err != nil || got != k.want || tries != k.tries {
			t.Errorf("%d: %q after %d tries, %v", i, got, tries, err)
		}
	}
	// An unusable answer is not cached, and a cached answer that is no longer usable is asked for anew.
	bad := func(reply []byte) (bool, error) {
		if bytes.Equal(reply, []byte("nonsense")) {
			return true, errors.New("nonsense")
		}
		return true, nil
	}
	if _, err := ask("c", "nonsense", bad); err == nil {
		t.Error("nonsense is good")
	}
	if got, err := ask("c", "5", bad); err != nil || got != "5" {
		t.Error(got, err)
	}
	if got, err := ask("d", "half", func([]byte) (bool, error) { return false, nil }); err != nil || got != "half" {
		t.Error(got, err)
	}
	if got, err := ask("d", "whole", fine); err != nil || got != "whole" {
		t.Errorf("half an answer was remembered: %q, %v", got, err)
	}
	// A file that was torn or changed is not believed.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	for i, f := range files {
		data, _ := os.ReadFile(f)
		data = [][]byte{data[:len(data)/2], append(data, 'x'), nil, bytes.Repeat([]byte("x"), 80)}[i%4]
		if err := os.WriteFile(f, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range []string{"a", "b", "", "c", "d"} {
		if got, err := ask(request, "new", fine); err != nil || got != "new" {
			t.Errorf("%q: %q, %v", request, got, err)
		}
	}
	if n, _ := filepath.Glob(filepath.Join(dir, "*", "new-*")); len(n) > 0 {
		t.Errorf("left over: %v", n)
	}
}

// server answers in one way.
func server(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func TestPost(t *testing.T) {
	seen := atomic.Int32{}
	for _, k := range []struct {
		name, said string
		tries      int32
		answer     http.HandlerFunc
	}{
		{"well", "", 1, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodPost || string(body) != "question" || r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %q %v", r.Method, body, r.Header)
			}
			_, _ = w.Write([]byte("answer"))
		}},
		{"500", "500", 3, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken\nhere", 500) }},
		{"429", "429", 3, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }},
		{"404", "404", 1, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }},
		{"401", "401", 1, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }},
		{"long", "longer than 1000 bytes", 1, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 50<<20))
		}},
		{"breaks off", "breaks off", 3, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"resets", "EOF", 3, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"slow", "no answer in time", 3, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is it noticed that nobody waits
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}},
		{"slow to end", "no answer in time", 3, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}},
	} {
		seen.Store(0)
		url := server(t, func(w http.ResponseWriter, r *http.Request) {
			seen.Add(1)
			k.answer(w, r)
		})
		p := quick()
		if strings.HasPrefix(k.name, "slow") {
			p.Timeout = 300 * time.Millisecond
		}
		c := NewCaller(p, nil)
		start := time.Now()
		reply, err := do(t.Context(), c, nil, func(ctx context.Context) ([]byte, error) {
			return c.Post(ctx, url, http.Header{"Authorization": {"Bearer k"}}, []byte("question"))
		}, fine)
		if k.said == "" && (err != nil || string(reply) != "answer") || k.said != "" && (err == nil || !strings.Contains(err.Error(), k.said)) || seen.Load() != k.tries {
			t.Errorf("%s: %q after %d tries, %v", k.name, reply, seen.Load(), err)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 || strings.Contains(err.Error(), "Bearer")) {
			t.Errorf("%s: %q", k.name, err)
		}
		if time.Since(start) > 15*time.Second {
			t.Errorf("%s: took %v", k.name, time.Since(start))
		}
	}
	// Nobody is there.
	c := NewCaller(quick(), nil)
	if _, err := do(t.Context(), c, nil, func(ctx context.Context) ([]byte, error) {
		return c.Post(ctx, "http://127.0.0.1:1", nil, nil)
	}, fine); err == nil || !strings.Contains(err.Error(), "failed 3 times") {
		t.Error(err)
	}
	if _, err := c.Post(t.Context(), "::", nil, nil); err == nil {
		t.Error("a URL that is none was asked")
	}
}

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
