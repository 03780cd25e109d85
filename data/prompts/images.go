package prompts

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

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
