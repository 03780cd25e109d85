package rewards

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" && len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		fakeTesseract(mode)
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "program" {
		rewardProgram(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// patient is a policy for busy machines, impatient one for servers that never answer.
func patient() call.Policy {
	p := impatient()
	p.Timeout = 20 * time.Second
	return p
}

func impatient() call.Policy {
	return call.Policy{Timeout: 500 * time.Millisecond, Tries: 2, Pause: time.Millisecond, Longest: time.Millisecond, Bytes: 10000}
}

// brightness is a reward that both sides can compute.
var brightness = Func(func(_ context.Context, item Item) (Score, error) {
	if item.Image == nil {
		return Score{}, ErrNoImage
	}
	return Score{Value: float64(item.Image.Pix[0]), Parts: map[string]float64{"red": float64(item.Image.Pix[0])}, Evidence: []evidence.Reason{{What: "read", Text: item.Prompt}}}, nil
})

func gray(v uint8) *vision.Image {
	m := vision.New(2, 1)
	for i := range m.Pix {
		m.Pix[i] = v
	}
	return m
}

var threeItems = []Item{{Prompt: "a", Image: gray(7)}, {Prompt: "b"}, {Prompt: "c", Image: gray(9)}}

// expectThree holds answers of brightness about threeItems.
func expectThree(t *testing.T, name string, got []Result) {
	t.Helper()
	if len(got) != 3 || got[0].Missing != nil || got[0].Value != 7 || got[0].Parts["red"] != 7 || got[0].Evidence[0].Text != "a" || got[2].Value != 9 {
		t.Errorf("%s: %+v", name, got)
	}
	if got[1].Missing == nil || !strings.Contains(got[1].Missing.Error(), ErrNoImage.Error()) {
		t.Errorf("%s: without a picture: %+v", name, got[1])
	}
}

func TestHTTP(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("the key is %q", r.Header.Get("Authorization"))
		}
		Server{Judge: Each(brightness, 2)}.Handler().ServeHTTP(w, r)
	}))
	defer s.Close()
	cache, err := call.OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for batch, want := range map[int]int{1: 3, 2: 2, 3: 1, 10: 1} {
		asked = 0
		p := patient()
		p.AtOnce = 1
		r := HTTP(s.URL, "secret", batch, p, nil)
		expectThree(t, "http", r.Judge(t.Context(), threeItems))
		if asked != want {
			t.Errorf("batches of %d: asked %d times", batch, asked)
		}
	}
	// Cached by the request; not where a score is missing.
	asked = 0
	r := HTTP(s.URL, "secret", 1, patient(), cache)
	for range 3 {
		if got, err := r.Score(t.Context(), threeItems[0]); err != nil || got.Value != 7 {
			t.Error(got, err)
		}
		if got, err := r.Score(t.Context(), threeItems[1]); err == nil {
			t.Error(got)
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
}

// lies are replies to two items, with the reason of each; "" is a score.
var lies = []struct{ name, reply, first, second string }{
	{"numbers", `{"scores": [1, 0.5]}`, "", ""},
	{"objects", `{"scores": [{"value": 1}, {"value": -2, "parts": {"a": 1}, "evidence": [{"what": "read"}]}]}`, "", ""},
	{"a reason", `{"scores": [1, {"missing": "it is\nempty"}]}`, "", "it says: it is empty"},
	{"a score too few", `{"scores": [1]}`, "1 scores for 2 items", "1 scores for 2 items"},
	{"a score too many", `{"scores": [1, 2, 3]}`, "3 scores for 2 items", "3 scores"},
	{"NaN", `{"scores": [NaN, 1]}`, `this is "NaN"`, ""},
	{"NaN twice", `{"scores": [NaN, NaN]}`, `this is "NaN"`, `this is "NaN"`},
	{"NaN in a text", `{"scores": [{"missing": "a: NaN, b"}, NaN]}`, "it says: a: NaN, b", `this is "NaN"`},
	{"infinite values", `{"scores": [{"value": -Infinity},NaN ]}`, `this is "-Infinity"`, `this is "NaN"`},
	{"infinity", `{"scores": [1e999, 1]}`, "1e999", ""},
	{"a text", `{"scores": ["0.5", 1]}`, "a score is a number", ""},
	{"a text for a value", `{"scores": [{"value": "0.5"}, 1]}`, "a score is a number", ""},
	{"null", `{"scores": [null, 1]}`, "neither a value", ""},
	{"a list", `{"scores": [[1], true]}`, "a score is a number", "a score is a number"},
	{"an empty object", `{"scores": [{}, 1]}`, "neither a value", ""},
	{"parts of text", `{"scores": [{"value": 1, "parts": {"a": "b"}}, 1]}`, "a score is a number", ""},
	{"no scores", `{"rewards": [1, 2]}`, "no scores", "no scores"},
	{"an error", `{"error": "out of memory"}`, "out of memory", "out of memory"},
	{"not JSON", "<html>\x00busy</html>", "no JSON", "no JSON"},
	{"nothing", "", "no JSON", "no JSON"},
	{"two replies", `{"scores": [1, 2]}{"scores": [1, 2]}`, "something follows", "something follows"},
	{"cut off", `{"scores": [1, 2`, "unexpected EOF", "unexpected EOF"},
	{"deep", strings.Repeat("[", 9000), "no JSON", "no JSON"},
	{"long", strings.Repeat(" ", 20000), "longer than 10000 bytes", "longer than"},
}

func expectLie(t *testing.T, name string, got []Result, first, second string) {
	t.Helper()
	for i, want := range []string{first, second} {
		if (got[i].Missing == nil) != (want == "") || want != "" && !strings.Contains(got[i].Missing.Error(), want) {
			t.Errorf("%s: item %d: %v, %v, want %q", name, i, got[i].Value, got[i].Missing, want)
		}
		if math.IsNaN(got[i].Number()) != (want != "") {
			t.Errorf("%s: item %d has the number %v", name, i, got[i].Number())
		}
	}
}

func TestHTTPLies(t *testing.T) {
	for _, c := range lies {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.reply) }))
		expectLie(t, c.name, HTTP(s.URL, "", 2, patient(), nil).Judge(t.Context(), threeItems[1:]), c.first, c.second)
		s.Close()
	}
}

func TestHTTPBroken(t *testing.T) {
	killed := httptest.NewServer(http.NotFoundHandler())
	killed.Close()
	for _, c := range []struct {
		name, url, said string
		answer          http.HandlerFunc
	}{
		{"killed", killed.URL, "refused", nil},
		{"no address", "http://%zz", "invalid URL", nil},
		{"500", "", "500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", 500) }},
		{"404", "", "404", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", 404) }},
		{"50 MB", "", "longer than 10000 bytes", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("1"), 50<<20))
		}},
		{"reset half-way", "", "breaks off", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"scores": [1,`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"slow", "", "no answer in time", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	} {
		url := c.url
		if c.answer != nil {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			url = s.URL
		}
		p := patient()
		if c.name == "slow" {
			p = impatient()
		}
		start := time.Now()
		expectLie(t, c.name, HTTP(url, "", 2, p, nil).Judge(t.Context(), threeItems[1:]), c.said, c.said)
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("%s: took %v", c.name, d)
		}
	}
}

// Passwords in addresses are not written down.
func TestHTTPHidesPasswords(t *testing.T) {
	r := HTTP("http://me:hidden@127.0.0.1:1/score?x=1", "hidden", 1, impatient(), nil)
	if _, err := r.Score(t.Context(), threeItems[0]); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

func TestServe(t *testing.T) {
	s := httptest.NewServer(Server{Judge: Each(brightness, 1)}.Handler())
	defer s.Close()
	for _, c := range []struct {
		body, said string
		status     int
	}{
		{`{"protocol": 1, "items": []}`, `"scores":[]`, 200},
		{`{"protocol": 1, "items": [{"prompt": "x"}]}`, "missing", 200},
		{`{"protocol": 2, "items": []}`, "protocol 2", 400},
		{`[]`, "protocol", 400},
		{`{"protocol": 1, "items": [{"image": "aaaa"}]}`, "item 1", 400},
		{`{"protocol": 1, "items": [{"frames": ["aaaa"]}]}`, "frame 1", 400},
	} {
		r, err := http.Post(s.URL, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != c.status || !strings.Contains(string(body), c.said) {
			t.Errorf("%s: %s, %s", c.body, r.Status, body)
		}
	}
	if r, err := http.Get(s.URL); err != nil || r.StatusCode != 405 {
		t.Error(r, err)
	}
}

// Items are read back as they were sent.
func TestItemsComeThrough(t *testing.T) {
	clip := &video.Clip{Width: 2, Height: 1, Rate: video.Rate{Num: 25, Den: 2}, Frames: [][]uint8{gray(1).Pix, gray(2).Pix}}
	items := []Item{{Prompt: `"ünï" cödé`, Image: gray(3), Sources: []*vision.Image{gray(7), gray(8)}}, {Prompt: "b", Clip: clip}, {Prompt: "c", Meta: meta(t, `{"answer": [1]}`), Transcript: &Transcript{Turns: []Turn{{"x", "zoom"}, {"y", ""}}}}}
	data, err := encodeItems(items)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte(`"meta":{}`)); n != 2 { // of items without one
		t.Errorf("%d empty metas in %s", n, data)
	}
	got, err := decodeItems(t.Context(), data, 1<<25)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if got[0].Prompt != items[0].Prompt || !bytes.Equal(got[0].Image.Pix, items[0].Image.Pix) {
		t.Errorf("%+v", got[0])
	}
	if made := got[0].Sources; len(made) != 2 || made[0].Pix[0] != 7 || made[1].Pix[0] != 8 || got[1].Sources != nil {
		t.Errorf("made of %v and %v", made, got[1].Sources)
	}
	if c := got[1].Clip; c == nil || c.Rate.FPS() != 12.5 || len(c.Frames) != 2 || !bytes.Equal(c.Frames[1], clip.Frames[1]) {
		t.Errorf("%+v", got[1])
	}
	if tr := got[2].Transcript; tr == nil || len(tr.Turns) != 2 || tr.Turns[0] != items[2].Transcript.Turns[0] || string(got[2].Meta["answer"]) != "[1]" {
		t.Errorf("%+v", got[2])
	}
	if _, err := encodeItems([]Item{{Clip: &video.Clip{}}}); err == nil {
		t.Error("a clip without frames was sent")
	}
}

func TestScoreJSON(t *testing.T) {
	data, err := json.Marshal(Score{Value: 0.5, Evidence: []evidence.Reason{{What: "read", Text: "x"}}})
	if err != nil || string(data) != `{"value":0.5,"evidence":[{"what":"read","text":"x"}]}` {
		t.Errorf("%s, %v", data, err)
	}
}
