package prompts

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// Pictures that a prompt is about: meta.picture, or image or images of the row, names one or several
// files, below the folder of the prompts' file; "embed:cards/7" is the seventh table of vision/scenes/cards, and
// "embed:cards/7/16,32,112,128" its crop between these edges: left, top, right, bottom.

const (
	table = "embed:cards/"
	drawn = "embed:edits/" // scenes that edits change
)

// Pictures opens them; none where the prompt names none. dir is the folder that names begin in.
func (p Prompt) Pictures(dir string) ([]*vision.Image, error) {
	names, err := p.shown()
	if err != nil {
		return nil, err
	}
	return OpenPictures(dir, names)
}

// shown are the names of the pictures that a question shows: those of meta.picture; without it, those of the row's
// image or images, or of a table's columns of these names.
func (p Prompt) shown() (names []string, err error) {
	if names, err = p.pictures(); err != nil || len(names) > 0 {
		return names, err
	}
	if len(p.Image) > 0 {
		return p.Image, nil
	}
	for _, key := range imageColumns {
		if raw, ok := p.Meta.Get(key); ok {
			var column Images
			if err := json.Unmarshal(raw, &column); err != nil {
				return nil, fmt.Errorf("meta.%s: %w", key, err)
			}
			return column, nil
		}
	}
	return nil, nil
}

// OpenPictures opens pictures by their names.
func OpenPictures(dir string, names []string) (all []*vision.Image, err error) {
	for _, name := range names {
		p, embedded, err := placeOf(name)
		if embedded && err == nil {
			var some []*vision.Image
			some, err = openEmbedded(dir, p)
			all = append(all, some...)
		}
		if err != nil {
			return nil, err
		}
		if embedded {
			continue
		}
		m, err := picture(dir, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// pictures are the names that meta.picture has.
func (p Prompt) pictures() (names []string, err error) {
	raw, ok := p.Meta.Get("picture")
	if !ok {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	if err := json.Unmarshal(raw, &names); err != nil {
		return nil, fmt.Errorf("meta.picture is neither a file's name nor a list of them")
	}
	return names, nil
}

func picture(dir, name string) (*vision.Image, error) {
	if number, ok := strings.CutPrefix(name, table); ok {
		number, edges, cropped := strings.Cut(number, "/")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("picture %q: tables are numbered from 0", name)
		}
		m := tableOf(n).Draw()
		if !cropped {
			return m, nil
		}
		if m, err = between(m, edges); err != nil {
			return nil, fmt.Errorf("picture %q: %w", name, err)
		}
		return m, nil
	}
	if number, ok := strings.CutPrefix(name, drawn); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("picture %q: scenes are numbered from 0", name)
		}
		return sceneOf(n), nil
	}
	if b, number, ok := beginningOf(name); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("picture %q: first frames are numbered from 0", name)
		}
		return b.frame(n), nil
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, outside(name)
	}
	path, err := below(dir, name)
	if err != nil {
		return nil, err
	}
	return vision.Open(path, vision.Limits{})
}

// isDrawn reports whether a name is that of a picture which the program draws.
func isDrawn(name string) bool {
	_, _, begins := beginningOf(name)
	return strings.HasPrefix(name, table) || strings.HasPrefix(name, drawn) || begins
}

// between returns the crop of a picture between four edges.
func between(m *vision.Image, edges string) (*vision.Image, error) {
	var at [4]int
	parts := strings.Split(edges, ",")
	if len(parts) != len(at) {
		return nil, fmt.Errorf("four edges were expected: left, top, right, bottom")
	}
	for i, p := range parts {
		var err error
		if at[i], err = strconv.Atoi(p); err != nil {
			return nil, fmt.Errorf("%q is no edge", p)
		}
	}
	return m.Crop(at[0], at[1], at[2]-at[0], at[3]-at[1])
}

// below is the file of this name in a folder; links may not lead out of it, since a list may be a stranger's.
func below(dir, name string) (string, error) {
	root, err := filepath.EvalSymlinks(filepath.Clean(dir))
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	if inside, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(inside) {
		return "", outside(name)
	}
	return path, nil
}

// HasPictures is the error that Pictures and Clips would meet for want of a file.
func (p Prompt) HasPictures(dir string) error {
	names, err := p.shown()
	if err != nil {
		return err
	}
	if err := p.hasClips(dir); err != nil {
		return err
	}
	return allThere(dir, names)
}

// allThere is the error that openAll would meet for want of a file.
func allThere(dir string, names []string) error {
	for _, name := range names {
		if isDrawn(name) {
			continue
		}
		p, embedded, err := placeOf(name)
		if err != nil {
			return err
		}
		if embedded {
			name = p.file
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return outside(name)
		}
		if _, err := below(dir, name); err != nil {
			return err
		}
	}
	return nil
}

func outside(name string) error {
	return fmt.Errorf("picture %q is not below the folder of the prompts, or a link out of it: put the file itself there", name)
}

func tableOf(n int) cards.Table { return cards.Random(rng.New(77).With("zoom").Sample(n)) }

// questions are n of the embedded ones, from table first on.
func questions(first, n int) []Prompt {
	var list []Prompt
	for i := first; i < first+n; i++ {
		t := tableOf(i)
		at := i % len(t.Cards)
		box := t.Cards[at].Box
		meta := map[string]json.RawMessage{}
		for key, v := range map[string]any{
			"picture": table + strconv.Itoa(i), "answer": strconv.Itoa(t.Cards[at].Digit),
			"target": []int{box.Min.X, box.Min.Y, box.Max.X, box.Max.Y},
		} {
			meta[key], _ = json.Marshal(v) // texts and numbers
		}
		list = append(list, Prompt{Text: t.Question(at), Meta: MetaOf(meta)})
	}
	return list
}

// solved are questions with the beginning of their solution (meta.solution): the call that looks at the card.
func solved(first, n int) []Prompt {
	list := questions(first, n)
	for k := range list {
		i := first + k
		cards, all := tableOf(i).Cards, list[k].Meta.Map()
		all["solution"], _ = json.Marshal(zoomCall(shownBox(cards[i%len(cards)].Box))) // a text
		list[k].Meta = MetaOf(all)
	}
	return list
}

// Pictures that a picture, or a clip, is made of. A record of JSON names them by "image" or "images": a file below the
// folder of the prompts' file, or a list of files. Tables have them in a column of such a name: texts are names, and
// pictures are read where they lie.

// imageColumns are the columns of a table that name pictures.
var imageColumns = []string{"image", "images"}

// Images are names of pictures. In JSON a single one is a text.
type Images []string

// mostImages is how many pictures one may be made of.
const mostImages = 16

// UnmarshalJSON reads a name, or a list of them.
func (m *Images) UnmarshalJSON(text []byte) error {
	var one *string
	if json.Unmarshal(text, &one) == nil {
		if *m = nil; one != nil {
			*m = Images{*one}
		}
		return nil
	}
	var list []string
	if json.Unmarshal(text, &list) != nil {
		return fmt.Errorf("image is %.40s, and must be a file's name or a list of them", text)
	}
	*m = list
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (m Images) MarshalJSON() ([]byte, error) {
	if len(m) == 1 {
		return json.Marshal(m[0])
	}
	return json.Marshal([]string(m))
}

// check looks at the names of a record.
func (m Images) check(line int) error {
	if len(m) > mostImages {
		return at(line, "a picture of %d others; %d are possible", len(m), mostImages)
	}
	for _, name := range m {
		if strings.TrimSpace(name) == "" {
			return at(line, "a name in image is empty\nhint: image is a file below the folder of this list, or a list of files; leave it out where there is none")
		}
	}
	return nil
}

// Sources are the names of the pictures that this one is made of: those of image, or of the table's column image;
// where it has none, the pictures that lie in the table beside the prompt.
func (p Prompt) Sources() (names []string) {
	if len(p.Image) > 0 {
		return p.Image
	}
	for _, key := range imageColumns {
		var column Images
		if raw, ok := p.Meta.Get(key); ok && json.Unmarshal(raw, &column) == nil && len(column) > 0 {
			return column
		}
	}
	beside, err := p.pictures()
	if err != nil {
		return nil
	}
	for _, name := range beside {
		if strings.HasPrefix(name, embeddedIn) {
			names = append(names, name)
		}
	}
	return names
}

// OpenSources opens them; none where the prompt has none. dir is the folder that names begin in.
func (p Prompt) OpenSources(dir string) ([]*vision.Image, error) {
	all, err := OpenPictures(dir, p.Sources())
	if err == nil && len(all) > mostImages {
		err = fmt.Errorf("a picture of %d others; %d are possible", len(all), mostImages)
	}
	return all, err
}

// HasSources is the error that OpenSources would meet for want of a file.
func (p Prompt) HasSources(dir string) error { return allThere(dir, p.Sources()) }

// SourceSizes are the widths and heights of those sources that are files of their own, by their headers.
func (p Prompt) SourceSizes(dir string) (all [][2]int, err error) {
	for _, name := range p.Sources() {
		if _, embedded, _ := placeOf(name); embedded || isDrawn(name) {
			continue
		}
		path, err := below(dir, name)
		if err != nil {
			return nil, err
		}
		w, h, err := vision.OpenSize(path)
		if err != nil {
			return nil, fmt.Errorf("picture %q: %w", name, err)
		}
		all = append(all, [2]int{w, h})
	}
	return all, nil
}
