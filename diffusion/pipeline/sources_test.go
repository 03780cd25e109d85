package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// shaded is a picture of a size.
func shaded(width, height int, tone uint8) *vision.Image {
	m := vision.New(width, height)
	for i := range m.Pix {
		m.Pix[i] = tone + uint8(i%11)
	}
	return m
}

// editing opens a pipeline whose pictures are small.
func editing(t *testing.T, name string) *Pipeline {
	return open(t, filepath.Join(recorded, name), Options{Precision: BF16, SourceArea: 48 * 48, SightArea: 48 * 48, TextLength: 24})
}

// drawnOf is a picture of a prompt and given pictures, with draws of its own.
func drawnOf(t *testing.T, p *Pipeline, given *Given, prompt string, seed uint64, sample int) Picture {
	t.Helper()
	texts, err := p.EncodeWith(given, prompt, "")
	if err != nil {
		t.Fatal(err)
	}
	pic := Picture{Text: texts[0], Negative: texts[1], Given: given}
	pic.StartKey, pic.StepKey = Draws(seed, 0, sample)
	return pic
}

// An edit has the same bits beside one of other pictures, whose sizes and texts differ; the result depends on the
// pictures.
func TestEditsAlone(t *testing.T) {
	for name, g := range map[string]Guidance{"pipe_qwen_image_edit_plus": {Scale: 4, Norm: true}, "pipe_flux_kontext": {Embedded: 2, Scale: 2}, "pipe_flux2_klein": {Scale: 2}} {
		p := editing(t, name)
		if name == "pipe_flux_kontext" {
			p.SourceArea = AsIs
		}
		s := stochastic(t, p, g)
		s.Batch, s.Record = 3, nil
		edit := func(prompt string, sources ...*vision.Image) Picture {
			given, err := p.Source(context.Background(), sources...)
			if err != nil {
				t.Fatal(err)
			}
			return drawnOf(t, p, given, prompt, 3, 0)
		}
		run := func(pics ...Picture) (finals [][]float64) {
			tracks, err := p.Sample(context.Background(), pics, s)
			if err != nil {
				t.Fatal(err)
			}
			for _, track := range tracks {
				finals = append(finals, track.Final)
			}
			return finals
		}
		pics := []Picture{edit("make it night", shaded(64, 64, 0)), edit("a cat", shaded(64, 64, 90)), edit("a cat", shaded(64, 96, 90))}
		all := run(pics...)
		for i, pic := range pics {
			if !slices.Equal(all[i], run(pic)[0]) {
				t.Errorf("%s: edit %d depends on its batch", name, i)
			}
		}
		if slices.Equal(all[1], all[2]) || slices.Equal(all[0], all[1]) {
			t.Errorf("%s: different edits are one", name)
		}
	}
}

// A text encoder that sees pictures says other things about other pictures, in memory and on the disk.
func TestTextsOfPictures(t *testing.T) {
	dir := t.TempDir()
	texts := map[string][]float32{}
	for range 2 { // the second time from the disk
		p := editing(t, "pipe_qwen_image_edit_plus")
		p.Cache.Dir = dir
		for name, tone := range map[string]uint8{"dark": 0, "light": 120} {
			given, err := p.Source(context.Background(), shaded(40, 40, tone))
			if err != nil {
				t.Fatal(err)
			}
			said, err := p.EncodeWith(given, "make it night")
			if err != nil {
				t.Fatal(err)
			}
			if before := texts[name]; before != nil && !slices.Equal(before, said[0].States) {
				t.Errorf("%s: the disk has another text", name)
			}
			texts[name] = said[0].States
		}
	}
	if slices.Equal(texts["dark"], texts["light"]) {
		t.Error("two pictures have one text")
	}
}

func TestSourcesRefuse(t *testing.T) {
	one := shaded(32, 32, 0)
	p := editing(t, "pipe_qwen_image_edit_plus")
	if _, err := p.Encode("a cat"); err == nil || !strings.Contains(err.Error(), "give one") {
		t.Errorf("a prompt without its picture: %v", err)
	}
	for name, of := range map[string]int{"pipe_flux_kontext": 2, "pipe_qwen_image_edit_plus": mostSources + 1, "pipe_flux": 1, "pipe_qwen_image": 1} {
		p := editing(t, name)
		if _, err := p.Source(context.Background(), slices.Repeat([]*vision.Image{one}, of)...); err == nil {
			t.Errorf("%s: %d pictures were taken", name, of)
		}
	}
	s := stochastic(t, p, Guidance{})
	given, err := p.Source(context.Background(), one)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := p.EncodeWith(given, "a cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sample(context.Background(), []Picture{{Text: texts[0]}}, s); err == nil || !strings.Contains(err.Error(), "give one (Source)") {
		t.Errorf("an edit of nothing: %v", err)
	}
}

// Sizes follow the last picture: upstream's rule, in multiples of 32, and at least one of them.
func TestEditSizes(t *testing.T) {
	p := editing(t, "pipe_qwen_image_edit_plus")
	p.SourceArea = 0
	if h, w := p.SizeFor(shaded(10, 40, 0), shaded(64, 48, 0)); w != 1184 || h != 896 {
		t.Errorf("%d x %d", w, h)
	}
	if w, h := EditSize(1024)(4000, 1); w%32 != 0 || h != 32 {
		t.Errorf("a line becomes %d x %d", w, h)
	}
}

// FLUX.2 takes the middle of a picture, in multiples of 16, and shrinks one of more than a million pixels.
func TestCutInMiddle(t *testing.T) {
	m := vision.New(90, 70)
	m.Pix[3*(3*90+5)] = 200 // the first pixel that stays
	small, err := cutInMiddle(m, 16, 0)
	if err != nil || small.Width != 80 || small.Height != 64 || small.Pix[0] != 200 {
		t.Errorf("%v, %v", small, err)
	}
	if large, err := cutInMiddle(vision.New(2000, 1000), 16, 0); err != nil || large.Width != 1440 || large.Height != 720 {
		t.Errorf("%v", err)
	}
	if less, err := cutInMiddle(vision.New(200, 100), 16, 96*96); err != nil || less.Width != 128 || less.Height != 64 {
		t.Errorf("%v", less)
	}
	for _, odd := range []*vision.Image{vision.New(63, 90), vision.New(577, 64)} {
		if _, err := cutInMiddle(odd, 16, 0); err == nil {
			t.Errorf("%d x %d was taken", odd.Width, odd.Height)
		}
	}
}

// Guidance that ends asks for one output behind its end, and refuses a batch that lies on both sides.
func TestGuidanceEnds(t *testing.T) {
	g := Guidance{Scale: 4, Until: 0.7}
	for time, scale := range map[float64]float64{1000: 4, 301: 4, 299: 1} {
		if at, err := g.at([]Point{{Time: time}}); err != nil || at.Scale != scale {
			t.Errorf("at %v: scale %v, %v", time, at.Scale, err)
		}
	}
	if _, err := g.at([]Point{{Time: 900}, {Time: 100}}); err == nil {
		t.Error("a batch on both sides was taken")
	}
}

// Texts and latents on the disk are those of one arithmetic: a device of another finds none of them.
func TestArithmeticOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	files := func(class string) int {
		p := editing(t, "pipe_qwen_image_edit_plus")
		p.Cache = Cache{Dir: dir, Arithmetic: class}
		given, err := p.Source(context.Background(), shaded(40, 40, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.EncodeWith(given, "make it night"); err != nil {
			t.Fatal(err)
		}
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if got := []int{files("ref"), files("a card"), files("ref")}; !slices.Equal(got, []int{2, 4, 4}) {
		t.Errorf("a text and a picture: %d files, of two arithmetics %d, and again %d", got[0], got[1], got[2])
	}
}
