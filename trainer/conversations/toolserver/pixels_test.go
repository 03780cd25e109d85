package toolserver

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestPixelsOfReplies: a server that sends more pixels than a reply may have gives no answer, and of eight photographs
// an episode holds its share at full size and the rest as the model sees them.
func TestPixelsOfReplies(t *testing.T) {
	one := func(w, h int) string {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.White, color.Black})); err != nil {
			t.Fatal(err)
		}
		return `"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"`
	}
	replies := map[string]string{"/large": strings.Repeat(one(5792, 5792)+",", 4) + one(5792, 5792), "/photographs": strings.Repeat(one(1200, 800)+",", 7) + one(1200, 800)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"text": "found", "images": [%s]}`, replies[r.URL.Path])
	}))
	defer server.Close()
	ask := func(path string, room int) (tools.Answer, error) {
		s := experiment.Served{}
		s.SetDefaults()
		s.Name, s.URL, s.Tries = "search", server.URL+path, 1
		o, err := Open(&experiment.Episode{Served: []experiment.Served{s}}, "")
		if err != nil {
			t.Fatal(err)
		}
		holds := NewPixelBudget(room, func(w, h int) (int, int, error) { return w / 10, h / 10, nil })
		return o.Begin(t.Context(), Episode{}, func(int, int) error { return nil }, holds).Answer("search", asking("cats"))
	}
	if _, err := ask("/large", MaxEpisodePixels); err == nil || !strings.Contains(err.Error(), "more than 134217728 pixels together") {
		t.Errorf("five pictures of 5792 x 5792: %v", err)
	}
	a, err := ask("/photographs", 2_500_000)
	if err != nil {
		t.Fatal(err)
	}
	full, small := 0, 0
	for _, m := range a.Pictures {
		switch m.Width {
		case 1200:
			full++
		case 120:
			small++
		}
	}
	if full != 2 || small != 6 {
		t.Errorf("of eight photographs %d are held at full size and %d as the model sees them", full, small)
	}
}

// TestPixelsOfEpisodes: crops count, too; one that was made small lies where it lay, and its operation makes it again.
func TestPixelsOfEpisodes(t *testing.T) {
	photograph := vision.New(400, 300)
	for i := range photograph.Pix {
		photograph.Pix[i] = byte(i * 7)
	}
	album := tools.NewAlbum(photograph)
	album.Keep = NewPixelBudget(30000, func(w, h int) (int, int, error) { return w / 2, h / 2, nil }).Hold
	p := tools.Darkroom()
	for i, want := range []int{200, 100} { // 200 x 100 pixels are in the share, and twice that many are not
		reply := p.Step(&tools.State{Album: album}, `<tool_call>{"name": "zoom", "arguments": {"bbox_2d": [40, 20, 240, 120]}}</tool_call>`)
		if n, err := reply.Make(album); err != nil || n != 1 {
			t.Fatalf("%d pictures, %v", n, err)
		}
		made := album.Pictures[i+1]
		if made.Width != want || made.Image.Width != want {
			t.Errorf("crop %d is held with %d pixels across, want %d", i, made.Width, want)
		}
		root, box, ok := album.ToRoot(i+1, tools.Box{0, 0, float64(made.Width), float64(made.Height)})
		if !ok || root != 0 || box != (tools.Box{40, 20, 240, 120}) {
			t.Errorf("crop %d lies at %v of picture %d", i, box, root)
		}
		again, err := made.From.Make(album)
		if err != nil || !bytes.Equal(again.Pix, made.Image.Pix) {
			t.Errorf("crop %d is another picture when it is made again: %v", i, err)
		}
	}
}

// TestShares: whatever the number of a batch's episodes, its pixels have the same bound.
func TestShares(t *testing.T) {
	for _, c := range []struct{ prompts, group, want int }{{1, 2, MaxEpisodePixels}, {8, 16, 1 << 23}, {64, 16, 1 << 20}} {
		e := &experiment.Experiment{}
		e.Rollout.PromptsPerIteration, e.Rollout.Group = c.prompts, c.group
		if got := PixelsOf(e); got != c.want || c.prompts*c.group*got > maxBatchPixels {
			t.Errorf("%d x %d episodes: %d pixels each", c.prompts, c.group, got)
		}
	}
}
