package tools

import (
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Mutants: calls and conversations that were right once, broken in a few places. Unlike the fuzz
// targets beside them they need no luck to be nearly right, and are the same in every run.
// -mutants says how many (make fuzz-calls: a million of each).

var mutants = flag.Int("mutants", 4000, "how many calls and conversations to break")

// scraps are texts that are put into other texts to break them.
var scraps = []string{
	"", " ", "\n", "{", "}", "[", "]", "\"", ":", ",", "'", "\\", "\\u0000", "\\ud800", "\x00", "\xff", "é", "\u2028", "🂡",
	"0", "-1", "1", "2", "7", "0.5", "1e308", "-1e308", "1e400", "NaN", "Infinity", "-0", "99999999999999999999", "0x10", "1_000", "True", "None", "null", "true",
	"<tool_call>", "</tool_call>", "<answer>", "</answer>", "<grounding>", "</grounding>", "<code>", "</code>", "```python\n", "```", "<bbox>", "</bbox>", "<search>", "</search>", "<think>", "</think>",
	"<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|vision_start|><|image_pad|><|vision_end|>", "<image>", "<|video_pad|>", "<|endoftext|>",
	`"name"`, `"arguments"`, `"bbox_2d"`, `"target_image"`, `"picture"`, `"source"`, `"role"`, `"content"`, `"type"`, `"image"`, `"tool_calls"`,
	"[[[[[[[[[[[[[[[[", `{"a":{"a":{"a":{"a":{"a":`, "(1, 2)", "__import__('os')", "9**9**9", "1/0", "10 - 3 * 2", "%s%d%n", "original_image", "observation_1", "observation_99",
}

// mutant breaks one of some texts in up to six places, or leaves it as it is.
func mutant(r *rand.Rand, seeds []string) string {
	text := seeds[r.IntN(len(seeds))]
	at := func() int { return r.IntN(len(text) + 1) }
	for range r.IntN(7) {
		i := at()
		j := min(len(text), i+r.IntN(1+r.IntN(12)))
		switch r.IntN(8) {
		case 0: // left out
			text = text[:i] + text[j:]
		case 1, 2: // put in
			text = text[:i] + scraps[r.IntN(len(scraps))] + text[i:]
		case 3, 4: // put in its place
			text = text[:i] + scraps[r.IntN(len(scraps))] + text[j:]
		case 5: // twice
			text = text[:j] + text[i:]
		case 6: // another number
			if k := strings.IndexAny(text[i:], "0123456789"); k >= 0 {
				end := i + k
				for end < len(text) && strings.IndexByte("0123456789.eE+-", text[end]) >= 0 {
					end++
				}
				text = text[:i+k] + strconv.FormatFloat((r.Float64()*3-1)*[]float64{1, 2, 40, 1e4, 1e18}[r.IntN(5)], 'g', -1, 64) + text[end:]
			}
		case 7: // the rest of another
			other := seeds[r.IntN(len(seeds))]
			text = text[:i] + other[r.IntN(len(other)+1):]
		}
		if len(text) > 1<<14 {
			text = text[:1<<14]
		}
	}
	if r.IntN(200) == 0 { // and sometimes far too much of it
		text = strings.Repeat(text[:min(len(text), 64)], 1+r.IntN(400))
	}
	return text
}

// byName are the protocols by their names.
func byName() map[string]*Protocol {
	all := map[string]*Protocol{}
	for _, p := range Protocols() {
		all[p.Name] = p
	}
	return all
}

// callSeeds are right calls of every protocol.
func callSeeds() map[string][]string {
	zoom := `{"bbox_2d": [10, 10, 60.5, 44]}`
	deepEyes := []string{
		"<think>x</think>" + call("image_zoom_in_tool", zoom), call("image_rotate_tool", `{"angle": 90}`), call("image_zoom_in_tool", `{"bbox_2d": [1, 2, 3, 4], "label": "cup"}`) + call("image_rotate_tool", `{"angle": -30.5}`),
		"<answer>B</answer>", "", "no call",
	}
	var darkroom []string
	for _, b := range Builtins() {
		for _, args := range b.Examples {
			darkroom = append(darkroom, call(b.Name, args), call(b.Name, args)+"\n"+call("zoom", zoom))
		}
	}
	return map[string][]string{
		"darkroom": append(darkroom, "<answer>4</answer>"), "deepeyes": deepEyes, "deepeyes_v5": deepEyes,
		"deepeyes_v2": {
			"<code>\n```python\nprint(1)\n```\n</code>", call("search", `{"query": "cats"}`), `<tool_call>{"name": "image_search"}</tool_call>`, "<answer>B</answer>", "<code></code>",
		},
		"mini_o3": {
			`<think>a</think><grounding>{"bbox_2d": [0.1, 0.2, 0.6, 0.9], "source": "original_image"}</grounding>`, `<grounding>{"bbox_2d": [0.1, 0.2, 0.6, 0.9], "source": "observation_1"}</grounding>`,
			`<grounding>{"bbox_2d": [1/10, 0.2 + 0.1, 0.6, 0.9], "source": "observation_2"}</grounding>`, "<answer>blue</answer>", "<grounding></grounding>",
		},
		"pixel_reasoner": {
			call("crop_image_normalized", `{"bbox_2d": [0.1, 0.2, 0.6, 0.9], "target_image": 1}`), call("crop_image_normalized", `{"bbox_2d": [10, 10, 60, 40], "target_image": 2}`),
			call("select_frames", `{"target_frames": [1, 2]}`), "the answer is \\boxed{3}",
		},
		"pyvision": {"<code>\n```python\nprint(1)\n```\n</code>", "```python\nimage_clue_0.crop((1, 2, 3, 4))\n```", "<answer>\\boxed{2}</answer>", "<code></code>"},
		"verl":     {call("image_zoom_in_tool", zoom), call("image_zoom_in_tool", `{"bbox_2d": [1, 2, 3, 4], "label": "cup"}`) + call("image_zoom_in_tool", zoom), "an answer"},
		"vrag":     {"<think>x</think><bbox>[1, 2, 40, 41]</bbox>", "<search>a page</search>", "<answer>Paris</answer>", "<bbox>[0, 0, 9999, 9999]</bbox>"},
	}
}

// moody runs nothing, and fails, raises or draws as its code says.
type moody struct{ m *vision.Image }

func (p moody) Run(code string) (Execution, error) {
	switch len(code) % 5 {
	case 0:
		return Execution{}, errors.New("the sandbox is gone")
	case 1:
		return Execution{Failed: true, Error: code}, nil
	case 2:
		return Execution{Text: code, Figures: 3, Drawn: []*vision.Image{p.m}}, nil
	case 3:
		return Execution{NoOutput: true}, nil
	}
	return Execution{Text: code}, nil
}

func (p moody) Read(m *vision.Image) ([]string, error) {
	if m.Width%7 == 0 {
		return nil, errors.New("nothing can be read")
	}
	return []string{"word", "<|image_pad|>"}, nil
}

// kinds are all that a refusal may be.
var kinds = map[Kind]bool{BadSyntax: true, MissingKey: true, WrongType: true, BoxArity: true, InvalidBox: true, UnknownTool: true, NoPicture: true, BadValue: true, Failed: true}

// TestMutantCalls: every protocol answers whatever was made of its calls, and of the others': with an end, or with a
// text; each refusal is of a known kind and says something; planned calls can be made, in pictures of a bounded size,
// in bounded time.
func TestMutantCalls(t *testing.T) {
	m := striped(64, 48)
	protocols, seeds := byName(), callSeeds()
	names := slices.Sorted(maps.Keys(protocols))
	for _, name := range names {
		if len(seeds[name]) == 0 {
			t.Fatalf("no calls of %s are broken", name)
		}
	}
	r := rand.New(rand.NewPCG(8, 9))
	states := map[string]*State{}
	count := map[string]int{}
	slowest := time.Duration(0)
	for range *mutants {
		of := names[r.IntN(len(names))]
		name := of
		if r.IntN(8) == 0 { // in another's words
			name = names[r.IntN(len(names))]
		}
		text := mutant(r, seeds[of])
		s := states[name]
		if s == nil || len(s.Album.Pictures) > 6 || r.IntN(10) == 0 {
			s = &State{Album: NewAlbum(m, m), Program: moody{m}, Reader: moody{m}}
			s.Album.Show(1, 32, 24)
			if r.IntN(2) == 0 {
				s.Album.Clip = []*vision.Image{m, m}
			}
			if r.IntN(4) == 0 {
				s.Program, s.Reader = nil, nil
			}
			states[name] = s
		}
		began := time.Now()
		end := judge(t, protocols[name], s, text)
		slowest = max(slowest, time.Since(began))
		count[end]++
		s.Turn++
	}
	t.Logf("%d calls; slowest %v; %v", *mutants, slowest, count)
	if slowest > 20*time.Second {
		t.Errorf("one call took %v", slowest)
	}
	var memory runtime.MemStats
	if runtime.ReadMemStats(&memory); memory.Sys > 1<<30 {
		t.Errorf("%d MB were taken", memory.Sys>>20)
	}
	for _, what := range []string{"answered", "no_call", "refused", "made", "said"} {
		if count[what] < *mutants/200 {
			t.Errorf("%d of %d calls were %s: the mutants are too broken, or not enough", count[what], *mutants, what)
		}
	}
}

// judge plays one text, and says how it ended.
func judge(t *testing.T, p *Protocol, s *State, text string) string {
	t.Helper()
	before := len(s.Album.Pictures)
	reply := p.Step(s, text)
	if len(s.Album.Pictures) != before {
		t.Fatalf("%s: planning %q made a picture", p.Name, text)
	}
	if reply.End == "" && reply.Text == "" {
		t.Errorf("%s goes on and says nothing: %q", p.Name, text)
	}
	if reply.End != "" && reply.End != Answered && reply.End != NoCall {
		t.Errorf("%s ends with %q: %q", p.Name, reply.End, text)
	}
	refused := reply.Refusal != nil
	for _, refusal := range append([]*Refusal{reply.Refusal}, refusals(reply)...) {
		if refusal != nil && (!kinds[refusal.Kind] || refusal.Message == "" && refusal.Raised == "") { // an AssertionError of Mini-o3's has no words
			t.Errorf("%s refuses with kind %q, raised %q, %q: %q", p.Name, refusal.Kind, refusal.Raised, refusal.Message, text)
		}
		refused = refused || refusal != nil
	}
	if most := 64*len(text) + 1<<14; len(reply.Text) > most {
		t.Errorf("%s says %d bytes to %d: %q", p.Name, len(reply.Text), len(text), text)
	}
	if reply.End == "" && !reply.Sound() {
		return "unsound" // the end of an episode
	}
	n, err := reply.Make(s.Album)
	switch {
	case err != nil:
		t.Errorf("%s planned what cannot be made: %v: %q", p.Name, err, text)
	case n != reply.Pictures:
		t.Errorf("%s made %d pictures of %d: %q", p.Name, n, reply.Pictures, text)
	}
	for _, made := range s.Album.Pictures[before:] {
		if made.Image == nil || made.Width < 1 || made.Height < 1 || made.Width*made.Height > 1<<23 {
			t.Errorf("%s made a picture of %d x %d: %q", p.Name, made.Width, made.Height, text)
		}
	}
	s.Album.shots(before, s.Turn)
	switch {
	case reply.End != "":
		return string(reply.End)
	case refused:
		return "refused"
	case n > 0:
		return "made"
	}
	return "said"
}

func refusals(r *Reply) (all []*Refusal) {
	for _, result := range r.Results {
		all = append(all, result.Refusal)
	}
	return all
}

// TestMutantChats: conversations are read or refused; every template writes the messages or gives a reason, with no
// fewer places than pictures where it writes pictures, in bounded room.
func TestMutantChats(t *testing.T) {
	seeds := []string{
		`[{"role": "system", "content": "You are kind."}, {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}]`,
		`[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [{"type": "function", "function": {"name": "zoom", "arguments": {"bbox_2d": [1, 2.5, 3e2, null]}}}]}, {"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]`,
		`[{"role": "assistant", "tool_calls": [{"name": "x", "arguments": "{\"a\": 1}"}]}, {"role": "tool", "content": ""}, {"role": "tool", "content": "é\u0000"}]`,
		`[{"role": "user", "content": [{"type": "video"}, {"text": "<|image_pad|>"}, {"image": null}]}]`, `[]`,
	}
	r := rand.New(rand.NewPCG(3, 4))
	read, written, slowest := 0, 0, time.Duration(0)
	for range *mutants {
		text := mutant(r, seeds)
		began := time.Now()
		messages, err := vlm.ReadMessages(text)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("refused without a word: %q", text)
			}
			continue
		}
		read++
		pictures := 0
		for _, m := range messages {
			for _, part := range m.Content {
				if part.Kind == vlm.PicturePart {
					pictures++
				}
			}
		}
		how, tools := vlm.Rendering{Generate: r.IntN(2) == 0, Number: r.IntN(2) == 0}, ""
		if r.IntN(4) == 0 {
			tools = mutant(r, []string{`[{"type": "function", "function": {"name": "zoom", "parameters": {}}}]`})
			how.Tools, _ = vlm.ReadTools(tools)
		}
		for _, form := range []vlm.Template{vlm.Qwen25VL, vlm.Qwen3VL, vlm.Qwen25} {
			out, err := form.Render(messages, how)
			if err != nil {
				continue
			}
			written++
			if n := strings.Count(out, "<|image_pad|>"); form == vlm.Qwen25VL && n < pictures {
				t.Errorf("%d pictures, %d places: %q", pictures, n, text)
			}
			if len(out) > 64*(len(text)+len(tools))+1<<14 {
				t.Errorf("%v writes %d bytes of %d: %q", form, len(out), len(text), text)
			}
			if utf8.ValidString(text+tools) && !utf8.ValidString(out) {
				t.Errorf("%v writes no text: %q", form, text)
			}
		}
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("%d conversations, %d read, %d times written; slowest %v", *mutants, read, written, slowest)
	if slowest > 20*time.Second || read < *mutants/20 || written == 0 {
		t.Errorf("%d of %d read, %d times written, slowest %v", read, *mutants, written, slowest)
	}
}
