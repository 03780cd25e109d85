package rewards

import (
	"context"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Card: rewards of the embedded task, for which no model is needed: pictures of package scenes
// are segmented by their palette.
//
//	SceneLayout  boxes.Matching of the regions found, "red circle", with the objects of the
//	             caption in their canonical places; for words, whose letters are not objects,
//	             the share of them that is written (scenes' own score)
//	SceneTask    scenes.Score: position and shape of each object, or how well the word's letters
//	             fit; 0.8 of that and 0.2 for crisp colours. Strictly: 1 only where everything is
//	             right
//
//	SceneGround  scenes.Ground: the share of the background that has the colour asked for, which
//	             the others hardly look at
//	SceneShade   scenes.Shade: how near its colour is to that, which sees a drift long before
//	             a pixel counts as of another background
//
// A caption of no scene, and a picture of another size, have no score. Invariants (tests): the scene itself scores
// above any other scene, and SceneTask agrees with package scenes.

// sceneOf returns an item's wanted scene and its picture.
func sceneOf(item Item) (scenes.Scene, *vision.Image, error) {
	if item.Image == nil {
		return scenes.Scene{}, nil, ErrNoImage
	}
	if err := sceneSize(item.Image); err != nil {
		return scenes.Scene{}, nil, err
	}
	s, err := scenes.Parse(item.Prompt)
	return s, item.Image, err
}

func sceneSize(m *vision.Image) error {
	if m.Width != scenes.Size || m.Height != scenes.Size {
		return fmt.Errorf("a picture of %d x %d is no scene: those are %d x %d", m.Width, m.Height, scenes.Size, scenes.Size)
	}
	return nil
}

// SceneDetector finds the shapes of scenes: a class is a shape, and how sure it is how much the
// region looks like that shape.
type SceneDetector struct{}

// Detect finds shapes.
func (SceneDetector) Detect(_ context.Context, m *vision.Image, _ []string) ([]Detection, error) {
	if err := sceneSize(m); err != nil {
		return nil, err
	}
	things, err := scenes.Find(m.Pix)
	if err != nil {
		return nil, err
	}
	var found []Detection
	for _, t := range things {
		found = append(found, Detection{Class: t.Shape, Color: t.Color, Box: boxes.Box(t.Box), Score: t.Likeness})
	}
	return found, nil
}

// SceneLayout is matched layout against the caption.
type SceneLayout struct{ boxes.Matching }

// Score judges a picture.
func (l SceneLayout) Score(ctx context.Context, item Item) (Score, error) {
	scene, m, err := sceneOf(item)
	if err != nil {
		return Score{}, err
	}
	if scene.Family == scenes.Word {
		return Score{Value: scene.Score(m.Pix).Task}, nil
	}
	found, err := SceneDetector{}.Detect(ctx, m, nil)
	if err != nil {
		return Score{}, err
	}
	var want, seen []boxes.Labelled
	for _, o := range scene.Objects {
		want = append(want, boxes.Labelled{Box: boxes.Box(o.Box), Label: o.Color + " " + o.Shape})
	}
	for _, d := range found {
		seen = append(seen, boxes.Labelled{Box: d.Box, Label: d.Color + " " + d.Class})
	}
	value, pairs, err := l.Match(seen, want)
	s := Score{Value: value}
	for _, w := range want {
		s.Evidence = append(s.Evidence, evidence.Reason{What: "asked for", Text: w.Label, Box: &w.Box})
	}
	s.Evidence = append(s.Evidence, matched(seen, pairs)...)
	return s, err
}

// matched are found boxes with the scores of their pairs.
func matched(found []boxes.Labelled, pairs []boxes.Pair) []evidence.Reason {
	all := make([]evidence.Reason, len(found))
	for i, f := range found {
		all[i] = evidence.Reason{What: "found", Text: f.Label, Box: &f.Box}
	}
	for _, p := range pairs {
		all[p.Found].Value = p.Score
	}
	return all
}

// SceneTask is the score that embedded models are compared by.
type SceneTask struct {
	Strict bool // 1 where everything is right, else 0
}

// Score judges a picture.
func (t SceneTask) Score(ctx context.Context, item Item) (Score, error) {
	scene, m, err := sceneOf(item)
	if err != nil {
		return Score{}, err
	}
	r := scene.Score(m.Pix)
	s := Score{Value: r.Total, Parts: map[string]float64{"task": r.Task, "strict": truth(r.Strict), "clean": r.Clean}}
	if t.Strict {
		s.Value = truth(r.Strict)
	}
	if scene.Family == scenes.Word {
		s.Evidence = []evidence.Reason{{What: "asked for", Text: scene.Text}}
		if lines, err := (SceneReader{}).Read(ctx, m); err == nil { // an unreadable text has a score, too
			s.Because("read", "%s", Joined(lines))
		}
		return s, nil
	}
	found, err := SceneDetector{}.Detect(ctx, m, nil)
	for _, d := range found {
		s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Text: strings.TrimSpace(d.Color + " " + d.Class), Box: &d.Box, Value: d.Score})
	}
	return s, err
}

// SceneGround judges the background.
type SceneGround struct{}

// Score judges a picture.
func (SceneGround) Score(_ context.Context, item Item) (Score, error) {
	scene, m, err := sceneOf(item)
	if err != nil {
		return Score{}, err
	}
	return Score{Value: scene.Ground(m.Pix), Evidence: []evidence.Reason{{What: "asked for", Text: scene.Background}}}, nil
}

// SceneShade judges the background's colour.
type SceneShade struct{}

// Score judges a picture.
func (SceneShade) Score(_ context.Context, item Item) (Score, error) {
	scene, m, err := sceneOf(item)
	if err != nil {
		return Score{}, err
	}
	return Score{Value: scene.Shade(m.Pix), Evidence: []evidence.Reason{{What: "asked for", Text: scene.Background}}}, nil
}

// SceneReader is the built-in recogniser of drawn words: it reads the letters of the built-in font in scenes. A
// picture with an unreadable text gives an error, not an empty text.
type SceneReader struct{}

// Read is the words of a scene.
func (SceneReader) Read(_ context.Context, m *vision.Image) ([]Line, error) {
	if err := sceneSize(m); err != nil {
		return nil, err
	}
	words, err := scenes.Read(m.Pix)
	var lines []Line
	for _, w := range words {
		lines = append(lines, Line{Text: w.Text, Confidence: w.Fit})
	}
	return lines, err
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// captioned refuses a prompt that is not a scene's caption.
func captioned(p Prompt) error { _, err := scenes.Parse(p.Text); return err }

// SceneKind is reward scene.
var SceneKind = Kind{
	Name:    "scene",
	Card:    "The embedded task: objects and words as the caption says, in crisp colours.",
	Paper:   "Darkroom's embedded scenes",
	Parts:   []string{"task", "strict", "clean"},
	Judges:  Pictures,
	Traits:  Scenes,
	Options: FrameKeys{},
	Bounds:  Unit,
	Needs:   Always(captioned),
	Open:    Plain(SceneTask{}),
}

// BackgroundKind is reward background.
var BackgroundKind = Kind{
	Name:    "background",
	Card:    "Share of an embedded scene's background that has the colour asked for.",
	Paper:   "Darkroom's embedded scenes",
	Judges:  Pictures,
	Traits:  Scenes,
	Options: FrameKeys{},
	Bounds:  Unit,
	Needs:   Always(captioned),
	Open:    Plain(SceneGround{}),
}

// ShadeKind is reward shade.
var ShadeKind = Kind{
	Name:    "shade",
	Card:    "How near an embedded scene's background is to the colour asked for: 1 at it, 0 at the nearest other background's.",
	Paper:   "Darkroom's embedded scenes",
	Judges:  Pictures,
	Traits:  Scenes,
	Options: FrameKeys{},
	Bounds:  Unit,
	Needs:   Always(captioned),
	Open:    Plain(SceneShade{}),
}
