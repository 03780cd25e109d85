// Package album reads pictures from files, which objectives train on in place of samples: pairs with a preference
// (offline DPO), or pictures with a score (fine-tuning, regression by a reward).
//
//	pages, err := album.Open("pairs.jsonl")
//	picture, err := pages[0].Picture(1, 512, 512)
//
// Open reads them. A line of a .jsonl file is a pair or a picture,
//
//	{"prompt": "...", "a": "a.png", "b": "b.png", "better": "a"}
//	{"prompt": "...", "image": "a.png", "score": 0.7}
//
// whose files lie in the file's folder or below it; "better" may be "tie", and a score that is not
// there is 1. A folder has a caption in NAME.txt beside each NAME.png (or .jpg, .webp).
// embed:scene-pairs are drawn scenes, and the same with one attribute wrong.
package album

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// A Page is a prompt with pictures, and a score for each.
type Page struct {
	prompts.Prompt
	Scores []float64
	show   func(i int) (*vision.Image, error)
}

// mostBytes limits a file.
const mostBytes = 1 << 28

// Open reads a file, a folder or an embedded album. Pictures are read when they are asked for; that
// their files are there is seen at once.
func Open(name string) ([]Page, error) {
	if name == scenePairs {
		return drawnPairs(), nil
	}
	if strings.HasPrefix(name, "embed:") {
		return nil, fmt.Errorf("no pictures %q are embedded; there is %s", name, scenePairs)
	}
	name = assets.AtHome(name)
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var pages []Page
	switch {
	case info.IsDir():
		pages, err = folder(name)
	case strings.EqualFold(filepath.Ext(name), ".jsonl"):
		if info.Size() > mostBytes {
			return nil, fmt.Errorf("%s: %d bytes are more than the %d that are read", name, info.Size(), mostBytes)
		}
		pages, err = lines(name)
	default:
		return nil, fmt.Errorf("%s: pictures to learn from are lines of a .jsonl file, or a folder with captions beside them", name)
	}
	if err == nil && len(pages) == 0 {
		err = fmt.Errorf("%s: there is no picture in it", name)
	}
	return pages, err
}

// Size is that of the i-th picture's file.
func (p Page) Size(i int) (width, height int, err error) {
	m, err := p.show(i)
	if err != nil {
		return 0, 0, err
	}
	return m.Width, m.Height, nil
}

// Picture is the i-th at a size: its shorter edge is fitted, and the middle cut out.
func (p Page) Picture(i, width, height int) (*vision.Image, error) {
	if i < 0 || i >= len(p.Scores) {
		return nil, fmt.Errorf("picture %d of %d of %q", i, len(p.Scores), p.Text)
	}
	m, err := p.show(i)
	if err != nil {
		return nil, err
	}
	if m.Width == width && m.Height == height {
		return m, nil
	}
	scale := max(float64(width)/float64(m.Width), float64(height)/float64(m.Height))
	w, h := max(width, int(scale*float64(m.Width)+0.5)), max(height, int(scale*float64(m.Height)+0.5))
	if m, err = m.Resize(w, h, vision.Lanczos); err != nil {
		return nil, err
	}
	return m.CentreCrop(width, height, vision.Downwards)
}

// A line is a pair or a picture.
type line struct {
	Prompt string       `json:"prompt"`
	Meta   prompts.Meta `json:"meta"`
	A      string       `json:"a"`
	B      string       `json:"b"`
	Better string       `json:"better"`
	Image  string       `json:"image"`
	Score  *float64     `json:"score"`
}

const form = `a line is {"prompt": "...", "a": "FILE", "b": "FILE", "better": "a"} or {"prompt": "...", "image": "FILE", "score": 1}`

func lines(name string) ([]Page, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var pages []Page
	for i, one := range bytes.Split(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n")) {
		if len(bytes.TrimSpace(one)) == 0 {
			continue
		}
		p, err := page(one, filepath.Dir(name))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// page is a line's.
func page(text []byte, dir string) (Page, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Page{}, fmt.Errorf("%w\nhint: %s", err, form)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Page{}, errors.New("something follows the record")
	}
	pair, single := l.A != "" && l.B != "", l.Image != ""
	var files []string
	var scores []float64
	switch {
	case strings.TrimSpace(l.Prompt) == "" || !utf8.ValidString(l.Prompt):
		return Page{}, errors.New("the prompt is empty, or not UTF-8")
	case pair == single || pair && l.Score != nil || single && (l.A != "" || l.B != "" || l.Better != ""):
		return Page{}, fmt.Errorf("it is neither a pair nor a picture\nhint: %s", form)
	case single:
		files, scores = []string{l.Image}, []float64{1}
		if l.Score != nil {
			scores[0] = *l.Score
		}
	default:
		better := map[string][]float64{"a": {1, 0}, "b": {0, 1}, "tie": {0, 0}}
		if files, scores = []string{l.A, l.B}, better[l.Better]; scores == nil {
			return Page{}, fmt.Errorf(`"better" is %q; it must be "a", "b" or "tie"`, l.Better)
		}
	}
	for _, f := range files {
		if err := there(dir, f); err != nil {
			return Page{}, err
		}
	}
	return Page{prompts.Prompt{Text: l.Prompt, Meta: l.Meta, Learned: beside(dir, files...)}, scores, func(i int) (*vision.Image, error) { return read(dir, files[i]) }}, nil
}

// beside are the paths of files in a folder.
func beside(dir string, names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return paths
}

// there reports a file that is not, or lies elsewhere.
func there(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name))
	switch {
	case err != nil:
		return fmt.Errorf("%w\nhint: pictures lie in the folder of the file that names them, or below it", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", name)
	}
	return nil
}

// read is a picture of a folder, which links cannot leave.
func read(dir, name string) (*vision.Image, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 64 << 20
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	var m *vision.Image
	if err == nil {
		m, err = vision.Decode(data, vision.Limits{})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return m, nil
}

// folder is pictures with their captions beside them, in the order of their names.
func folder(dir string) ([]Page, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []Page
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		switch strings.ToLower(ext) {
		case ".png", ".jpg", ".jpeg", ".webp":
		default:
			continue
		}
		name := e.Name()
		caption := strings.TrimSuffix(name, ext) + ".txt"
		text, err := os.ReadFile(filepath.Join(dir, caption))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no caption: %s is not there", filepath.Join(dir, name), caption)
		}
		if err != nil {
			return nil, err
		}
		prompt := strings.TrimSpace(string(text))
		if prompt == "" || !utf8.ValidString(prompt) || len(prompt) > 1<<16 {
			return nil, fmt.Errorf("%s: no caption of at most %d bytes of UTF-8", filepath.Join(dir, caption), 1<<16)
		}
		if err := there(dir, name); err != nil {
			return nil, err
		}
		pages = append(pages, Page{prompts.Prompt{Text: prompt, Learned: beside(dir, name)}, []float64{1}, func(int) (*vision.Image, error) { return read(dir, name) }})
	}
	return pages, nil
}

// scenePairs is the embedded album.
const scenePairs = "embed:scene-pairs"

// drawnPairs are the captions of embed:scenes, each with the picture it asks for and one whose
// caption has a wrong attribute. Their order is random.
func drawnPairs() []Page {
	list, err := prompts.Open("embed:scenes")
	if err != nil {
		panic(err) // embedded
	}
	var pages []Page
	for i, p := range list {
		key := rng.New(78).With("pairs of scenes").Prompt(uint64(i))
		asked, err := scenes.Parse(p.Text)
		if err != nil {
			panic(err) // embedded captions are scenes
		}
		wrong, err := scenes.Parse(scenes.Corrupt(p.Text, key.With("wrong").Draw()))
		if err != nil {
			continue // two equal objects, which no scene has
		}
		pair, scores := [2]scenes.Scene{asked, wrong}, []float64{1, 0}
		if key.With("order").Draw().Intn(2) == 1 {
			pair, scores = [2]scenes.Scene{wrong, asked}, []float64{0, 1}
		}
		pages = append(pages, Page{p, scores, func(i int) (*vision.Image, error) {
			m := vision.New(scenes.Size, scenes.Size)
			copy(m.Pix, pair[i].Draw(scenes.Jitter(key.With("jitter").Sample(i).Draw())))
			return m, nil
		}})
	}
	return pages
}
