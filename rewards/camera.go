package rewards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards/motion"
)

// Camera judges whether the camera moves as its prompt asks (motion.Camera has the formula). The move is in
// meta.camera, or in the words of the prompt: "pan left", "the camera tilts up", "zooming out", "rolls clockwise",
// "static camera"; several are asked for one after another.
type Camera struct{ MotionOptions }

// moves are the words of camera moves. A pan alone is a vessel, but where a sentence or a camera begins with it.
var moves = regexp.MustCompile(`(?i)(?:\b(pan)(?:s|ning)(?: \w+)?? |(?:^|[,.;:]\s*|\b(?:camera|slow|slowly|then|and) )(pan) )(?:to the )?(left|right)\b|` +
	`\b(?:(tilt)(?:s|ing)? (up|down)|(zoom|doll[yi]e?|push)(?:s|es|ing)? (in|out)|(pull)(?:s|ing)? (back|out)|` +
	`(roll)(?:s|ing)? (clockwise|counterclockwise)|(static|still|fixed) (camera|shot))\b`)

// moveNamed are moves by their two words, the first as moves has it.
var moveNamed = map[string]motion.Move{
	"pan left": motion.PanLeft, "pan right": motion.PanRight, "tilt up": motion.TiltUp, "tilt down": motion.TiltDown,
	"zoom in": motion.ZoomIn, "zoom out": motion.ZoomOut, "dolly in": motion.ZoomIn, "dolly out": motion.ZoomOut,
	"dollie in": motion.ZoomIn, "dollie out": motion.ZoomOut, "push in": motion.ZoomIn, "push out": motion.ZoomOut, "pull back": motion.ZoomOut, "pull out": motion.ZoomOut,
	"roll clockwise": motion.Clockwise, "roll counterclockwise": motion.Counterclockwise,
}

// errNoMove is the error of a prompt without a move.
var errNoMove = errors.New(`the prompt asks for no move of the camera, such as "pan left", "tilt up", "zoom in", "roll clockwise" or "static camera"` +
	"\nhint: write it into the prompt, or into meta.camera of the prompts file")

// Target are the moves that a prompt asks for, one after another.
func (Camera) Target(prompt string, meta Meta) (asked []motion.Move, err error) {
	if _, there := meta["camera"]; there {
		if err := meta.Read("camera", &prompt); err != nil {
			return nil, err
		}
	}
	for _, found := range moves.FindAllStringSubmatch(prompt, -1) {
		var words []string
		for _, w := range found[1:] {
			if w != "" {
				words = append(words, strings.ToLower(w))
			}
		}
		asked = append(asked, moveNamed[strings.Join(words, " ")]) // the others: still
	}
	if asked == nil {
		return nil, errNoMove
	}
	return asked, nil
}

// Score judges a clip.
func (r Camera) Score(ctx context.Context, item Item) (Score, error) {
	c, _, err := r.picked(item)
	if err != nil {
		return Score{}, err
	}
	asked, err := r.Target(item.Prompt, item.Meta)
	if err != nil {
		return Score{}, err
	}
	if n := len(c.Frames) - 1; len(asked) > max(n, 1) {
		return Score{}, fmt.Errorf("%d moves are asked for, one after another, of a clip of %d frames", len(asked), n+1)
	}
	r.Method = cmp.Or(r.Method, UsualMotion.Method)
	m, err := r.steps(ctx, item)
	if err != nil {
		return Score{}, err
	}
	seen := m.Camera(asked...)
	s := Score{Value: seen.Value, Parts: map[string]float64{"pan": seen.Pan, "tilt": seen.Tilt, "zoom": seen.Zoom, "roll": seen.Roll}}
	s.Because("camera", "from frame to frame it pans right %.2f pixels, tilts up %.2f, zooms in %.2f and rolls clockwise %.2f", seen.Pan, seen.Tilt, seen.Zoom, seen.Roll)
	return s, nil
}

// CameraKind is reward camera.
var CameraKind = Kind{
	Name:    "camera",
	Card:    "Whether the camera moves as the prompt asks, or meta.camera: pan left, tilt up, zoom in, roll clockwise, static camera; a still clip games the last.",
	Paper:   "Darkroom, over DIS (Kroeger et al., 2016)",
	Parts:   []string{"pan", "tilt", "zoom", "roll"},
	Judges:  Clips,
	Traits:  Flows,
	Options: MotionKey{},
	Bounds:  Unit,
	Needs:   Always(func(p Prompt) error { _, err := Camera{}.Target(p.Text, p.Meta); return err }),
	Open: Opens(func(k MotionKey, _ Bench) (Opened, error) {
		set := config.Filled(k.Motion)
		if err := set.built(); err != nil {
			return Opened{}, err
		}
		return One(Camera{set}), nil
	}),
}
