// Command hero draws pictures of runs for README.md and examples: the first held-out prompts in their order, each with
// its first sample before and after training, and a tick where everything that the prompt asks for is right. Clips
// play, in a GIF file.
//
//	go run ./internal/hero runs/quickstart assets/quickstart.png   // make hero
//	go run ./internal/hero runs/clip assets/clip.gif
//	go run ./internal/hero runs/words examples/ocr/words.png       // examples/ocr
//
// It reads heldout.jsonl, which says where a sample is on the run's sheets. Start with read;
// draw.go lays out the picture.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// shown is how many prompts the picture has.
const shown = 16

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "hero: needs the folder of a run, and the file to write")
		os.Exit(2)
	}
	if err := work(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "hero:", err)
		os.Exit(1)
	}
}

func work(run, to string) error {
	pairs, says, err := read(run)
	if err != nil {
		return err
	}
	frames, err := draw(pairs)
	if err != nil {
		return err
	}
	fmt.Println(says)
	if len(frames) > 1 {
		c := &video.Clip{Width: frames[0].Width, Height: frames[0].Height, Rate: video.Rate{Num: played, Den: 1}}
		for _, m := range frames {
			c.Frames = append(c.Frames, m.Pix)
		}
		return video.WriteFile(to, c)
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(out, paletted(frames[0])); err != nil {
		return err
	}
	return out.Close()
}

// played is how many frames of a clip play in a second.
const played = 8

// A pair is a prompt's first sample before and after.
type pair struct {
	text          string
	before, after sample
}

// A sample is a picture, or a clip of several.
type sample struct {
	frames []*vision.Image
	right  bool
}

// A line holds the fields read of heldout.jsonl.
type line struct {
	Iteration, Prompt, Sample int
	Text                      string
	At                        *[4]int
	Scores                    map[string]struct {
		Value float64
		Parts map[string]float64
	}
}

// right says whether everything that the prompt asks for is in the picture; whether its words can be read; or whether
// the thing of a clip goes and turns as asked, by at most a quarter off, in frames that show it.
func (l line) right() bool {
	if h, ok := l.Scores["heading"]; ok {
		return h.Parts["agreement"] >= 0.75 && l.Scores["thing"].Value >= 0.9
	}
	if words, ok := l.Scores["ocr"]; ok {
		return words.Value == 1
	}
	return l.Scores["scene"].Parts["strict"] == 1
}

// sheet are the frames of a run's sheet, one where nothing plays.
func sheet(path string) ([]*vision.Image, error) {
	if !video.Plays(path) {
		m, err := vision.Open(path, vision.Limits{})
		return []*vision.Image{m}, err
	}
	c, err := video.Open(path, video.Limits{})
	if err != nil {
		return nil, err
	}
	var frames []*vision.Image
	for _, px := range c.Frames {
		frames = append(frames, &vision.Image{Width: c.Width, Height: c.Height, Pix: px})
	}
	return frames, nil
}

// cut are the frames of a sample of a sheet.
func cut(frames []*vision.Image, at [4]int) (all []*vision.Image, err error) {
	for _, m := range frames {
		one, err := m.Crop(at[0], at[1], at[2], at[3])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// read is the first prompts of a run, and a sentence about all of them.
func read(run string) (pairs []pair, says string, err error) {
	lines, last, err := readLines(filepath.Join(run, "heldout.jsonl"))
	if err != nil {
		return nil, "", err
	}
	sheets := map[int][]*vision.Image{}
	for iteration, name := range map[int]string{0: "heldout_before.png", last: fmt.Sprintf("heldout_%06d.png", last)} {
		if sheets[iteration], err = sheet(filepath.Join(run, "images", name)); err != nil {
			return nil, "", err
		}
	}
	rights, all := map[int]int{}, 0
	for _, l := range lines {
		if l.right() {
			rights[l.Iteration]++
		}
		if l.Iteration == last {
			all++
		}
		if l.Sample != 0 || l.Prompt >= shown || l.At == nil {
			continue
		}
		for len(pairs) <= l.Prompt {
			pairs = append(pairs, pair{})
		}
		p, at := &pairs[l.Prompt], *l.At
		p.text = l.Text
		switch l.Iteration {
		case 0:
			p.before.right = l.right()
			p.before.frames, err = cut(sheets[0], at)
		case last:
			p.after.right = l.right()
			p.after.frames, err = cut(sheets[last], at)
		}
		if err != nil {
			return nil, "", err
		}
	}
	for i, p := range pairs {
		if p.before.frames == nil || len(p.after.frames) != len(p.before.frames) {
			return nil, "", fmt.Errorf("%s: prompt %d has no pictures before and after", run, i)
		}
	}
	return pairs, fmt.Sprintf("everything right: %d of %d before, %d of %d after iteration %d", rights[0], all, rights[last], all, last), nil
}

// readLines are the lines of a file, and the last iteration in them.
func readLines(file string) (all []line, last int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	text := bufio.NewScanner(f)
	text.Buffer(nil, 1<<24)
	for text.Scan() {
		var l line
		if err := json.Unmarshal(text.Bytes(), &l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", file, len(all)+1, err)
		}
		all, last = append(all, l), max(last, l.Iteration)
	}
	if last == 0 {
		return nil, 0, fmt.Errorf("%s has no evaluation after training", file)
	}
	return all, last, text.Err()
}
