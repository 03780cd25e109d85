package tools

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// striped is a picture whose every pixel tells its place.
func striped(width, height int) *vision.Image {
	m := vision.New(width, height)
	for y := range height {
		for x := range width {
			p := m.Row(y)[3*x:]
			p[0], p[1], p[2] = uint8(x), uint8(y), uint8(x>>8)
		}
	}
	return m
}

func call(name, args string) string {
	return `<tool_call>{"name": "` + name + `", "arguments": ` + args + `}</tool_call>`
}

// TestZoomAgain: a crop of a crop is cut from the right pixels, and the books know where it lies in
// the prompt's picture.
func TestZoomAgain(t *testing.T) {
	s := &State{Album: NewAlbum(striped(400, 300))}
	s.Album.Show(0, 200, 150) // the model saw it at half size
	p := Darkroom()
	for i, args := range []string{`{"bbox_2d": [50, 40, 150, 100]}`, `{"picture": 2, "bbox_2d": [20, 10, 80, 70]}`} {
		r := p.Step(s, call("zoom", args))
		if n, err := r.Make(s.Album); n != 1 || err != nil || !r.Sound() {
			t.Fatal(i, n, err, r.Text)
		}
		if n, _ := r.Make(s.Album); n != 0 {
			t.Error("a reply made its pictures twice")
		}
	}
	got := s.Album.Pictures[2]
	if got.Width != 60 || got.Height != 60 || got.Image.Pix[0] != 120 || got.Image.Pix[1] != 90 {
		t.Errorf("a crop of %d x %d from (%d, %d)", got.Width, got.Height, got.Image.Pix[0], got.Image.Pix[1])
	}
	root, b, ok := s.Album.ToRoot(2, Box{0, 0, 60, 60})
	if want := (Box{120, 90, 180, 150}); root != 0 || b != want || !ok {
		t.Errorf("it lies in picture %d at %v, %v", root, b, ok)
	}
	if b.Overlap(Box{120, 90, 180, 210}) != 0.5 {
		t.Error("overlap")
	}
	if s.Album.Pictures[1].Hash() == s.Album.Pictures[2].Hash() || len(got.Hash()) != 64 {
		t.Error("hashes")
	}
}

// TestEveryTool: each of our tools does its work, and each mistake has its kind.
func TestEveryTool(t *testing.T) {
	for _, c := range []struct {
		name, args string
		pictures   int
		kind       Kind
	}{
		{"zoom", `{"bbox_2d": [10, 10, 60, 60]}`, 1, ""},
		{"zoom", `{"bbox_2d": [60, 60, 10, 10]}`, 0, InvalidBox},
		{"zoom", `{"bbox_2d": [10, 10, 20, 20]}`, 0, InvalidBox},
		{"zoom", `{"bbox_2d": [10, 10, 60]}`, 0, BoxArity},
		{"zoom", `{"bbox_2d": [10, 10, 60, NaN]}`, 0, BadValue},
		{"zoom", `{"bbox_2d": [10, 10, 60, "9"]}`, 0, WrongType},
		{"zoom", `{}`, 0, MissingKey},
		{"zoom", `[1]`, 0, WrongType},
		{"zoom", `{"picture": 7, "bbox_2d": [10, 10, 60, 60]}`, 0, NoPicture},
		{"rotate", `{"angle": 90}`, 1, ""},
		{"rotate", `{"angle": 1e300}`, 0, BadValue},
		{"flip", `{"axis": "horizontal"}`, 1, ""},
		{"flip", `{"axis": "sideways"}`, 0, BadValue},
		{"draw_box", `{"bbox_2d": [1, 2, 50, 60], "label": "cup"}`, 1, ""},
		{"draw_line", `{"bbox_2d": [-5, 2, 50, 60]}`, 1, ""},
		{"draw_point", `{"point_2d": [5, 5], "colour": 9}`, 0, BadValue},
		{"draw_point", `{"point_2d": [5, 5], "colour": 2}`, 1, ""},
		{"grid", `{"cells": 4}`, 1, ""},
		{"measure", `{"bbox_2d": [0, 0, 30, 40]}`, 0, ""},
		{"read_text", `{}`, 0, Failed},
		{"frame", `{"frame": 2}`, 1, ""},
		{"frame", `{"frame": 3}`, 0, BadValue},
		{"crop", `{}`, 0, UnknownTool},
	} {
		s := &State{Album: NewAlbum(striped(100, 80))}
		s.Album.Clip = []*vision.Image{striped(8, 8), striped(9, 8)}
		r := Darkroom().Step(s, call(c.name, c.args))
		var kind Kind
		if refused := r.Results[0].Refusal; refused != nil {
			kind = refused.Kind
		}
		n, err := r.Make(s.Album)
		if kind != c.kind || n != c.pictures || err != nil || !r.Sound() || r.End != "" {
			t.Errorf("%s %s: %d pictures, kind %q, %v, %q", c.name, c.args, n, kind, err, r.Text)
		}
		if c.pictures == 1 && c.name != "frame" && string(s.Album.Pictures[1].Image.Pix) == string(s.Album.Pictures[0].Image.Pix) {
			t.Errorf("%s changed nothing", c.name)
		}
	}
	r := Darkroom().Step(&State{Album: NewAlbum(striped(100, 80))}, call("measure", `{"bbox_2d": [0, 0, 30, 40]}`))
	if !strings.Contains(r.Text, "50.0 pixels (30.0 across, 40.0 down)") {
		t.Error(r.Text)
	}
}

// TestBuiltins: every tool of our own has a name of its own, takes its examples, and, where a model is offered it,
// describes itself and its arguments; whatever it plans can be made.
func TestBuiltins(t *testing.T) {
	names, ops := map[string]bool{}, map[string]bool{}
	for _, b := range Builtins() {
		if names[b.Name] || len(b.Examples) == 0 || (b.Card == "") != (b.Schema == nil) {
			t.Errorf("%s: another tool has its name, or it has no example, or a card without a schema", b.Name)
		}
		names[b.Name] = true
		for kind := range b.Ops {
			if ops[kind] {
				t.Errorf("%s: another tool has the operation %s", b.Name, kind)
			}
			ops[kind] = true
		}
		for _, args := range b.Examples {
			s := &State{Album: NewAlbum(striped(100, 80), striped(90, 80)), Reader: moody{}}
			s.Album.Clip = []*vision.Image{striped(8, 8)}
			r := Darkroom().Step(s, call(b.Name, args))
			n, err := r.Make(s.Album)
			if r.Results[0].Refusal != nil || err != nil || n != len(b.Ops) {
				t.Errorf("%s %s: %d pictures, %v, %q", b.Name, args, n, err, r.Text)
			}
		}
	}
}

// TestProtocolsSayWhatTheyAre: a published protocol names its source and the recorded cases that hold it.
func TestProtocolsSayWhatTheyAre(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Protocols() {
		if p.Card == "" || seen[p.Name] || p.Read == nil || p.Observation == nil || len(p.Tools) == 0 {
			t.Errorf("%s: no card, or its name twice, or it reads, says or has nothing", p.Name)
		}
		seen[p.Name] = true
		if own := p.Open; own != (p.Source == "") || own != (p.In != nil) {
			t.Errorf("%s: published and open, or neither", p.Name)
		}
		if named, err := Named(p.Name); err != nil || named.Card != p.Card {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if _, err := Named("morse"); err == nil || !strings.Contains(err.Error(), "there are darkroom, deepeyes, deepeyes_v2, deepeyes_v5, mini_o3, pixel_reasoner, pyvision, verl, vrag") {
		t.Error(err)
	}
}

func TestFlip(t *testing.T) {
	m := striped(5, 4)
	if got := flipped(m, "horizontal"); got.Row(1)[0] != 4 || got.Row(1)[1] != 1 {
		t.Error("horizontal")
	}
	if got := flipped(m, "vertical"); got.Row(0)[1] != 3 || got.Row(0)[0] != 0 {
		t.Error("vertical")
	}
}

// TestFrames: there and back, in every frame.
func TestFrames(t *testing.T) {
	p := Picture{Width: 640, Height: 480, ShownWidth: 320, ShownHeight: 120}
	for f, want := range map[Frame]Box{ShownPixels: {16, 6, 160, 60}, FullPixels: {32, 24, 320, 240}, Unit: {0.05, 0.05, 0.5, 0.5}, Thousandths: {50, 50, 500, 500}} {
		b, err := f.FromFull(Box{32, 24, 320, 240}, p)
		back, err2 := f.ToFull(b, p)
		for i := range b {
			if math.Abs(b[i]-want[i]) > 1e-9 || math.Abs(back[i]-(Box{32, 24, 320, 240})[i]) > 1e-9 || err != nil || err2 != nil {
				t.Fatalf("%s: %v, %v", f, b, back)
			}
		}
	}
	if _, err := Frame("x").ToFull(Box{}, p); err == nil {
		t.Error("a frame that is none")
	}
}

// TestUnsound: an observation that has a place for no picture, or one for a clip, is found out.
func TestUnsound(t *testing.T) {
	for _, pad := range []string{VisionPad, "<|video_pad|>"} {
		p := Darkroom()
		p.Observation = func(*State, *Reply) string { return pad }
		if r := p.Step(&State{Album: NewAlbum(striped(100, 80))}, call("x", `{}`)); r.Sound() {
			t.Errorf("%q counts as sound", r.Text)
		}
	}
	if _, err := Named("x"); err == nil || !strings.Contains(err.Error(), "mini_o3") {
		t.Error(err)
	}
}

func TestExpression(t *testing.T) {
	for text, raised := range map[string]string{
		"[1, -2.5, 1e-3, .5]": "", "(1, 2)": "", "[100/640, 2*(3+4), -1, +1,]": "", `["a", 'b', None, True]`: "", "[1_000]": "",
		"[x]": "NameError", "[1": "SyntaxError", "[1]]": "SyntaxError", "": "SyntaxError", "[01]": "SyntaxError", "[1] \"x\": 2": "SyntaxError",
		"[1/0]": "ZeroDivisionError", `["a"*2]`: "TypeError", strings.Repeat("[", 5000): "SyntaxError", "__import__('os')": "NameError", strings.Repeat("-", 5000) + "1": "",
	} {
		_, err := expression(text)
		var r *Refusal
		if errors.As(err, &r); r == nil && raised != "" || r != nil && r.Raised != raised {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestRootOfResized: a crop that was resized, of a crop that was taken as it was shown, is found in
// the prompt's picture.
func TestRootOfResized(t *testing.T) {
	a := NewAlbum(striped(400, 300))
	a.Sized(200, 100, 100, 50, &Op{Kind: "crop", Rect: Rect{40, 60, 140, 110}, ToWidth: 200, ToHeight: 100})
	a.Sized(50, 25, 50, 25, &Op{Kind: "crop", Picture: 1, Shown: true, Rect: Rect{10, 5, 60, 30}})
	if root, b, ok := a.ToRoot(2, Box{0, 0, 50, 25}); root != 0 || b != (Box{50, 65, 100, 90}) || !ok {
		t.Errorf("picture %d, %v, %v", root, b, ok)
	}
	a.Sized(50, 25, 50, 25, &Op{Kind: "rotate", Picture: 2, Angle: 3})
	if _, _, ok := a.ToRoot(3, Box{0, 0, 50, 25}); ok {
		t.Error("a turned picture has a rectangle")
	}
}
