package tools

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: VRAG-RL (Alibaba-NLP/VRAG, vrag_agent/generation.py). The first whole pair of <search>, <answer>, <bbox>
// decides. A box [x1, y1, x2, y2] is in pixels of the last picture as shown; it is scaled to the page (the last
// picture that is not a crop), cut towards zero, then cut to the page; in validation it is widened by 28 shown pixels
// first. The crop is shown with 256 to 512 times 28 x 28 pixels. Upstream writes the sampled text anew from its tags
// before training (Rewritten), so that it trains on text that was never sampled: transcripts here keep the tokens.
// Held to vlm.tool_vrag.
//
// Pages are found by the tool outside that is called search: {"query": "..."} in, pictures out, the best first. The
// first of them that the episode has not seen is shown; where it has seen all, the best is shown again (upstream shows
// whatever the batch's search before it found). A page is as large as the model's processor makes it; upstream keeps it
// within the pixels of a crop.

const (
	vragLeast = 256 * 28 * 28
	vragMost  = 512 * 28 * 28

	vragBadBox = "\n" + userTurn + "Your previous action is invalid. You must conduct reasoning inside <think> and </think> first every time you get new information. After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and user will return the searched results. Every time you retrieve an image, you have the option to crop it to obtain a clearer view, the format for coordinates is <bbox>[x1, y1, x2, y2]</bbox>. You can search as many times as your want. If you find no further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without detailed illustrations. For example, <answer> Beijing </answer>. Please try again.\n" + modelTurn
	vragBad    = "\n" + userTurn + "Your previous action is invalid. You must conduct reasoning inside <think> and </think> first every time you get new information. After reasoning, if you want to search, you should put the query between <search> and </search>.\nIf you find no further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without detailed illustrations. For example, <answer> Beijing </answer>. Please try again.\n" + modelTurn
)

// VRAG is its protocol.
func VRAG(validation bool) *Protocol {
	return &Protocol{
		Name: "vrag", Card: "Searches pages, and crops the last (VRAG-RL).",
		Source: "Alibaba-NLP/VRAG 24f8d055989c, VRAG-RL/scripts/hf_dataset_convert.py",
		Limits: Limits{Turns: 5}, // the fifth must answer
		Cases:  []string{"vlm.tool_vrag"}, Outside: []string{"search"},
		Read: readVRAG, Observation: sayVRAG, Pad: VisionPad, Together: true,
		Tools: []Tool{
			{Name: "bbox", Plan: func(s *State, args any) (Plan, error) { return cropPage(s, args, validation) }},
			{Name: "search", Plan: searchPages},
		},
	}
}

// searchPages asks the tool outside; without one there is nothing to search in.
func searchPages(s *State, args any) (Plan, error) {
	query := pytext.Ordered{Keys: []string{"query"}, Values: pytext.Object{"query": args.(string)}} // as readVRAG wrote it
	plan, err := OutsideTool("search").Plan(s, query)
	if err != nil || len(plan.Ready) == 0 {
		return plan, err
	}
	for _, m := range plan.Ready {
		if !s.Album.has(m) {
			return Plan{Ready: []*vision.Image{m}}, nil
		}
	}
	return Plan{Ready: plan.Ready[:1]}, nil
}

// has is whether one of the pictures has these pixels.
func (a *Album) has(m *vision.Image) bool {
	return slices.ContainsFunc(a.Pictures, func(p Picture) bool {
		return p.Image != nil && p.Width == m.Width && p.Height == m.Height && bytes.Equal(p.Image.Pix, m.Pix)
	})
}

// VRAGAction is the first action of a text and its content; "" without one.
func VRAGAction(text string) (action, content string) {
	all := allTagged(text, "search", "answer", "bbox")
	if len(all) == 0 {
		return "", ""
	}
	return all[0].name, pytext.Strip(all[0].inside)
}

// Rewritten is upstream's training text in place of a text: its tags and nothing else.
func Rewritten(text string) string {
	var lines []string
	for _, t := range allTagged(text, "answer", "search", "think", "bbox") {
		lines = append(lines, "<"+t.name+">"+t.inside+"</"+t.name+">")
	}
	return strings.Join(lines, "\n")
}

func readVRAG(text string) Reading {
	switch action, content := VRAGAction(text); action {
	case "":
		return Reading{Refused: refuse(BadSyntax, "", "%s", vragBad)}
	case "answer":
		return Reading{Answer: content, Answered: true}
	case "search":
		return one(Call{Name: "search", Args: content})
	default:
		box, err := fourCorners(content)
		return one(Call{Name: "bbox", Args: box, Refused: asRefusal(err)})
	}
}

// fourCorners reads a list of four numbers that are not negative.
func fourCorners(text string) (Box, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return Box{}, refuse(BadSyntax, "JSONDecodeError", "%v", err)
	}
	list, ok := v.([]any)
	if !ok || len(list) != 4 {
		return Box{}, refuse(BoxArity, "ValueError", "Invalid bbox value")
	}
	var b Box
	for i, e := range list {
		x, ok := number(e)
		if !ok || !(x >= 0) {
			return Box{}, refuse(BadValue, "ValueError", "Invalid bbox value")
		}
		b[i] = x
	}
	return b, nil
}

func cropPage(s *State, args any, validation bool) (Plan, error) {
	b := args.(Box) // as readVRAG wrote it
	shown, ok := last(s.Album.Pictures)
	page := s.Album.page()
	if !ok || page < 0 {
		return Plan{}, refuse(NoPicture, "IndexError", "nothing was shown yet")
	}
	raw := s.Album.Pictures[page]
	w, h := float64(raw.Width), float64(raw.Height)
	if validation {
		b = Box{b[0] - 28, b[1] - 28, b[2] + 28, b[3] + 28}
	}
	for i, by := range [4]float64{float64(shown.ShownWidth), float64(shown.ShownHeight), float64(shown.ShownWidth), float64(shown.ShownHeight)} {
		b[i] = math.Trunc(float64([4]float64{w, h, w, h}[i]*b[i]) / by)
		if math.IsInf(b[i], 0) || math.IsNaN(b[i]) {
			return Plan{}, refuse(BadValue, "OverflowError", "cannot convert float infinity to integer")
		}
	}
	b = Box{math.Max(0, b[0]), math.Max(0, b[1]), math.Min(w, b[2]), math.Min(h, b[3])}
	op, err := crop(page, b)
	if err != nil {
		return Plan{}, err
	}
	op.ToWidth, op.ToHeight, err = withinPixels(op.Rect.Width(), op.Rect.Height(), vragLeast, vragMost)
	return Plan{Ops: []Op{op}}, err
}

// page is the last picture that is not a crop; -1 without one.
func (a *Album) page() int {
	for i := len(a.Pictures) - 1; i >= 0; i-- {
		if from := a.Pictures[i].From; from == nil || from.Kind != "crop" {
			return i
		}
	}
	return -1
}

// withinPixels makes a picture smaller, then larger, so that its pixels lie within both bounds; sides are cut to
// whole numbers.
func withinPixels(width, height, least, most int) (w, h int, err error) {
	scaled := func(to int) {
		by := math.Sqrt(float64(to) / float64(width*height))
		width, height = int(float64(width)*by), int(float64(height)*by)
	}
	if width*height > most {
		scaled(most)
	}
	if width*height == 0 {
		return 0, 0, refuse(InvalidBox, "ZeroDivisionError", "division by zero")
	}
	if width*height < least {
		scaled(least)
	}
	if width*height == 0 {
		return 0, 0, refuse(InvalidBox, "ValueError", "height and width must be > 0")
	}
	return width, height, nil
}

func sayVRAG(_ *State, r *Reply) string {
	switch {
	case r.Refusal != nil && len(r.Results) == 0:
		return r.Refusal.Message
	case r.Refusal != nil:
		return vragBadBox
	}
	text := ""
	for _, result := range r.Results {
		text += result.Text
	}
	return "\n" + userTurn + text + strings.Repeat(VisionPad, r.Pictures) + modelTurn
}
