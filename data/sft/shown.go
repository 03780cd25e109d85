package sft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Pictures and clips in rows of data sets: columns of files, parts of a message that name one, and marks in a text.

// words are the names of a medium in rows: the column, or one name alone, the types of a part, and the mark in a text.
type words struct{ column, one, url, mark, what string }

var shown = map[vlm.PartKind]words{
	vlm.PicturePart: {"images", "image", "image_url", pictureMark, "picture"},
	vlm.ClipPart:    {"videos", "video", "video_url", clipMark, "clip"},
}

// namesOf is a column of pictures or clips.
func namesOf(o pytext.Ordered, w words) (names []string, err error) {
	v := o.Values[w.column]
	if v == nil {
		v = o.Values[w.one]
	}
	if one, ok := v.(string); ok {
		return []string{one}, nil
	}
	list, ok := v.([]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("%q: a list of files' names was expected", w.column)
	}
	for _, e := range list {
		name, ok := e.(string)
		if p, is := e.(pytext.Ordered); is {
			name, ok = p.Values["path"].(string)
		}
		if !ok {
			return nil, fmt.Errorf("%q: a list of files' names was expected", w.column)
		}
		names = append(names, name)
	}
	return names, nil
}

// parts returns a text with marks of the row's pictures and clips.
func parts(text string, listed map[vlm.PartKind][]string) (all []vlm.Part) {
	for {
		at, first, mark := len(text), vlm.TextPart, ""
		for kind, w := range shown {
			if i := strings.Index(text, w.mark); len(listed[kind]) > 0 && i >= 0 && i < at {
				at, first, mark = i, kind, w.mark
			}
		}
		all = append(all, vlm.Text(text[:at])...)
		if mark == "" {
			return all
		}
		all = append(all, vlm.Part{Kind: first})
		text = text[at+len(mark):]
	}
}

// partOf is a part of a list; the file that it names is added to named.
func partOf(v any, listed, named map[vlm.PartKind][]string) (all []vlm.Part, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return nil, errors.New("an object was expected")
	}
	if text, ok := o.Values["text"].(string); ok {
		return parts(text, listed), nil
	}
	written, _ := o.Values["type"].(string)
	for kind, w := range shown {
		if written != w.one && written != w.url {
			continue
		}
		name, err := w.named(o, len(listed[kind]) > 0)
		if name != "" {
			named[kind] = append(named[kind], name)
		}
		return []vlm.Part{{Kind: kind}}, err
	}
	return nil, fmt.Errorf("a part of type %q: text, image and video are known", written)
}

// named is the file that a part names; "" where the row lists it.
func (w words) named(part pytext.Ordered, listed bool) (string, error) {
	where := part.Values[w.one]
	if where == nil {
		where = part.Values[w.url]
	}
	if url, ok := where.(pytext.Ordered); ok {
		where = url.Values["url"]
	}
	name, _ := where.(string)
	switch name = strings.TrimPrefix(name, "file://"); {
	case name == "" && !listed:
		return "", fmt.Errorf(`a %s that names no file: write {"type": %q, %q: "FILE"}, or list the files in %q`, w.what, w.one, w.one, w.column)
	case strings.Contains(name, "://") || strings.HasPrefix(name, "data:"):
		return "", fmt.Errorf("%s %.60q: files beside the data set are read, and nothing is fetched", w.what, name)
	}
	return name, nil
}
