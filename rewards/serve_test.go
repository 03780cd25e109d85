package rewards

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/vision"
)

// TestServeHTTP: each kind of request, by its head and its body.
func TestServeHTTP(t *testing.T) {
	s := httptest.NewServer(Server{Judge: Each(brightness, 1), Bytes: 1 << 20, Pixels: 1 << 20}.Handler())
	defer s.Close()
	png, err := pngOf(vision.New(600, 600))
	if err != nil {
		t.Fatal(err)
	}
	pictures := func(n int) string {
		items := make([]Item, n)
		for i := range items {
			items[i] = Item{Image: vision.New(600, 600)}
		}
		body, err := encodeItems(items)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	clip := fmt.Sprintf(`{"protocol": 1, "items": [{"frames": [%s""]}]}`, strings.Repeat(fmt.Sprintf("%q,", base64Of(png)), 3))
	none := `{"protocol": 1, "items": []}`
	for _, c := range []struct {
		name, body, header, value string
		status                    int
		said                      string
	}{
		{"well", pictures(2), "", "", 200, `"scores":[`},
		{"too many pixels", pictures(3), "", "", 400, "item 3"},
		{"too many pixels in frames", clip, "", "", 400, "frame 3"},
		{"too many bytes", none + strings.Repeat(" ", 1<<20), "", "", 413, "more than 1048576 bytes"},
		{"too many items", `{"protocol": 1, "items": [{}` + strings.Repeat(",{}", 5000) + `]}`, "", "", 400, "more than 4096"},
		{"too many frames", `{"protocol": 1, "items": [{"frames": [""` + strings.Repeat(`,""`, 5000) + `]}]}`, "", "", 400, "more than 4096"},
		{"of a page", none, "Origin", "https://example.com", 403, "web pages"},
		{"of this machine's pages", none, "Origin", "null", 403, "web pages"},
		{"by another name", none, "Host", "evil.example:80", 403, "evil.example"},
		{"by localhost", none, "Host", "LOCALHOST:80", 200, "scores"},
		{"by its address", none, "Host", "[::1]:80", 200, "scores"},
		{"as text", none, "Content-Type", "text/plain", 415, "application/json"},
		{"with a charset", none, "Content-Type", "application/json; charset=utf-8", 200, "scores"},
	} {
		r, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if c.header == "Host" {
			r.Host = c.value
		} else if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		said, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(said), c.said) {
			t.Errorf("%s: %s, %s", c.name, answer.Status, said)
		}
	}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// TestServeMemory: a request of many large pictures in few bytes takes no more memory than its limit of
// pixels does.
func TestServeMemory(t *testing.T) {
	png, err := pngOf(vision.New(2048, 2048)) // 12 MiB in 13 KB
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"protocol": 1, "items": [{"image": %q}%s]}`, base64Of(png), strings.Repeat(fmt.Sprintf(`, {"image": %q}`, base64Of(png)), 39))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	items, err := decodeItems(t.Context(), body, 1<<24) // four of them
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "item 5") || items != nil {
		t.Errorf("%d items, %v", len(items), err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<28 { // a decoder holds four channels beside three
		t.Errorf("%d MB were allocated", taken>>20)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := decodeItems(ended, body, 1<<30); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("decoding goes on for nobody: %v", err)
	}
}

// TestServeAtOnce: no more requests are read and judged at once than the limit; the others wait.
func TestServeAtOnce(t *testing.T) {
	var now, most, all atomic.Int32
	judge := Func(func(ctx context.Context, _ Item) (Score, error) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(30 * time.Millisecond)
		now.Add(-1)
		all.Add(1)
		return Score{}, nil
	})
	s := httptest.NewServer(Server{Judge: Each(judge, 1), AtOnce: 2}.Handler())
	defer s.Close()
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, err := http.Post(s.URL, "application/json", strings.NewReader(`{"protocol": 1, "items": [{"prompt": "x"}]}`))
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 2 || all.Load() != 8 {
		t.Errorf("%d at once, %d in all", most.Load(), all.Load())
	}
}

// TestServeHeld: requests whose bodies do not come hold no other up, and bodies beyond the room are refused.
func TestServeHeld(t *testing.T) {
	judge := Each(brightness, 1)
	s := httptest.NewServer(Server{Judge: judge, AtOnce: 2, Bytes: 1000, Patience: 20 * time.Second}.Handler())
	t.Cleanup(s.Close) // after the held connections
	hold := func(text string) {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"+text)
	}
	ask := func() int {
		ctx, end := context.WithTimeout(t.Context(), 5*time.Second)
		defer end()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(`{"protocol": 1, "items": []}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("a whole request beside held ones: %v", err)
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for range 8 {
		hold("{")
	}
	if got := ask(); got != 200 {
		t.Errorf("beside eight requests of a byte: %d", got)
	}
	hold(strings.Repeat(" ", 990))
	hold(strings.Repeat(" ", 990))
	deadline := time.Now().Add(5 * time.Second)
	got := ask()
	for got == 200 && time.Now().Before(deadline) { // until the held bytes have arrived
		time.Sleep(10 * time.Millisecond)
		got = ask()
	}
	if got != 503 {
		t.Errorf("beside bodies that take the room: %d", got)
	}
}

// TestServeSlow: a body that does not arrive is not waited for; a judge that takes longer is.
func TestServeSlow(t *testing.T) {
	judge := Func(func(ctx context.Context, _ Item) (Score, error) {
		select {
		case <-time.After(600 * time.Millisecond):
			return Score{Value: 1}, nil
		case <-ctx.Done():
			return Score{}, ctx.Err()
		}
	})
	s := httptest.NewServer(Server{Judge: Each(judge, 1), Patience: 200 * time.Millisecond}.Handler())
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer := make([]byte, 1000)
	if n, err := c.Read(answer); !bytes.Contains(answer[:n], []byte(" 400 ")) {
		t.Errorf("%s, %v", answer[:n], err)
	}
	got, err := HTTP(s.URL, "", 1, patient(), nil).Score(t.Context(), Item{Prompt: "x"})
	if err != nil || got.Value != 1 {
		t.Error(got, err)
	}
}

// TestServeDrains: after the end, requests in progress are answered, and nothing else; a judge that does not end is
// stopped.
func TestServeDrains(t *testing.T) {
	for _, c := range []struct {
		takes, late time.Duration
		answered    bool
	}{{300 * time.Millisecond, 20 * time.Second, true}, {time.Minute, 200 * time.Millisecond, false}} {
		begun := make(chan struct{}, 1)
		judge := Func(func(ctx context.Context, _ Item) (Score, error) {
			begun <- struct{}{}
			select {
			case <-time.After(c.takes):
				return Score{Value: 1}, nil
			case <-ctx.Done():
				return Score{}, ctx.Err()
			}
		})
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended, answered := make(chan error, 1), make(chan error, 1)
		go func() { ended <- Server{Judge: Each(judge, 1)}.Run(ctx, l, c.late) }()
		go func() {
			once := patient()
			once.Tries = 1
			s, err := HTTP("http://"+l.Addr().String(), "", 1, once, nil).Score(t.Context(), Item{Prompt: "x"})
			if err == nil && s.Value != 1 {
				err = fmt.Errorf("%+v", s)
			}
			answered <- err
		}()
		<-begun
		stop()
		err = <-ended
		if got := <-answered; (got == nil) != c.answered || (err == nil) != c.answered {
			t.Errorf("%v: answered with %v, ended with %v", c.takes, got, err)
		}
		if _, err := http.Post("http://"+l.Addr().String(), "application/json", strings.NewReader("{}")); err == nil {
			t.Error("it answers after its end")
		}
	}
}

// TestServeConnections: connections beyond the limit wait, and end with the server.
func TestServeConnections(t *testing.T) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	room := &limited{Listener: l, free: make(chan struct{}, 2), closed: make(chan struct{})}
	accepted := make(chan net.Conn, 3)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := room.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	<-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection at once")
	case <-time.After(50 * time.Millisecond):
	}
	_ = first.Close()
	<-accepted
	_ = room.Close()
	if err := <-ended; err == nil {
		t.Error("it accepts after its end")
	}
}
