package chat

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// TestClipsRead: each family has its own frames, sizes and marks: of 20 frames at 10 a second, Qwen3-VL's processor
// takes 0, 6, 13, 19 and writes the mean time of two, Qwen2.5-VL's takes 0, 5, 10, 15 and counts seconds.
func TestClipsRead(t *testing.T) {
	film := &video.Clip{Width: 56, Height: 28, Rate: video.Rate{Num: 10, Den: 1}}
	for i := range 20 {
		film.Frames = append(film.Frames, []byte(strings.Repeat(string(rune(i+1)), 3*56*28)))
	}
	const text = "<|vision_start|><|video_pad|><|vision_end|>Where?"
	frame := "<|vision_start|><|video_pad|><|vision_end|>"
	how := experiment.Clips{FPS: 2, Min: 4, Max: 768, Least: 1, Most: 1 << 20}
	for _, c := range []struct {
		family  vlm.Family
		frames  []byte
		text    string
		grids   []vlm.Grid
		seconds []float64
	}{
		{vlm.FamilyQwen3VL, []byte{1, 7, 14, 20}, "<0.3 seconds>" + frame + "<1.6 seconds>" + frame + "Where?", []vlm.Grid{{Frames: 1, Rows: 2, Columns: 4}, {Frames: 1, Rows: 2, Columns: 4}}, nil},
		{vlm.FamilyQwen25VL, []byte{1, 6, 11, 16}, text, []vlm.Grid{{Frames: 2, Rows: 2, Columns: 4}}, []float64{1}},
	} {
		processor := vlm.NewProcessor()
		k := &VLM{Model: &vlm.Model{}, Processor: &processor, Dir: t.TempDir()}
		k.Model.Family = c.family
		f, err := k.LoadVideos([]*video.Clip{film}, how, nil)
		if err != nil {
			t.Fatal(err)
		}
		var read []byte
		for _, m := range f.frames {
			read = append(read, m.Pix[0])
		}
		said, err := f.MarkTimes(text)
		if err != nil || said != c.text || !reflect.DeepEqual(read, c.frames) || !reflect.DeepEqual(f.Patches.Grids, c.grids) || !reflect.DeepEqual(f.seconds, c.seconds) {
			t.Errorf("%v: frames %v, %q, grids %v, seconds %v, %v", c.family, read, said, f.Patches.Grids, f.seconds, err)
		}
		if err := os.WriteFile(filepath.Join(k.Dir, "video_preprocessor_config.json"), []byte(`{"size": {"shortest_edge": 12544, "longest_edge": 50176}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		how := how
		how.Least, how.Most = 0, 0
		if g, err := k.LoadVideos([]*video.Clip{film}, how, nil); err != nil || g.Patches.Grids[0].Patches() <= f.Patches.Grids[0].Patches() {
			t.Errorf("%v: the folder's bounds: %v, %v", c.family, g, err)
		}
	}
}
