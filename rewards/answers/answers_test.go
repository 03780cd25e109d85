package answers

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
)

// rules are all that judge one reply against one truth, a truth that they can read, and the
// reply that says just that.
var rules = map[string]struct {
	rule         Rule
	truth, right string
	least, most  float64
}{
	"same":       {Same, "a red cup", "<answer>A red\ncup.</answer>", 0, 1},
	"yes or no":  {YesNo, "yes", "Yes, it is", 0, 1},
	"default":    {Default, "12", "<answer> 12.0 </answer>", 0, 1},
	"choice":     {MultipleChoice, "B", "Not C. The right one is B.", 0, 1},
	"mAP":        {MAP{}.Rule, twoBoxes, "so: " + twoBoxes, 0, 1},
	"AP50":       {MAP{Fifty: true, Length: true}.Detected, "<answer>" + twoBoxes + "</answer>", "<answer>" + twoBoxes + "</answer>", 0, 1},
	"weighted":   {Weighted, twoBoxes, twoBoxes, 0, 1},
	"grounding":  {Grounding{[2]int{100, 50}, [2]int{200, 100}}.Rule, "<answer>[20, 20, 60, 40]</answer>", "<answer>[10, 10, 30, 20]</answer>", 0, 1},
	"positions":  {DetectionIoU, twoPositions, twoPositions, 0, 1},
	"confidence": {DetectionConfidence, twoPositions, twoPositions, 0, 1},
	"relative":   {Relative{}.Rule, "12", "about 12 cups", 0, 1},
	"exact":      {Relative{Exact: true}.Rule, "12", "12.0", 0, 1},
	"letter":     {Relative{}.Rule, "C", "it is C", 0, 1},
	"DAPO":       {DAPO, `\frac12`, `thus Answer: $\frac{1}{2}$`, -1, 1},
	"boxed":      {Boxed, "1/2", `so \boxed{0.5}`, 0, 1},
	"GSM8K":      {GSM8K{}.Rule, "1234", "#### 1,234", 0, 1},
	"cer":        {CER, "red cup", "<answer>red cup</answer>", 0, 1},
	"wer":        {WER, "a red  cup", "a red cup", 0, 1},
	"mer":        {MER, "a red cup", "<answer> a red cup </answer>", 0, 1},
	"giou":       {GIoU, "[20, 20, 60, 40]", "<answer>[20, 20, 60, 40]</answer>", 0, 2},
}

const (
	twoBoxes     = "```json\n[{\"bbox_2d\": [0, 0, 40, 40], \"label\": \"cup\"}, {\"bbox_2d\": [50, 0, 90, 30], \"label\": \"dog\"}]\n```"
	twoPositions = "<answer>[{'Position': [0, 0, 40, 40], 'Confidence': 1.0}, {'Position': [50, 0, 90, 30], 'Confidence': 1.0}]</answer>"
)

// The right answer scores highest, and an empty or garbled reply lower.
func TestTheTruthIsBest(t *testing.T) {
	for name, c := range rules {
		best, err := c.rule(c.right, c.truth)
		if err != nil || math.Abs(best.Value-c.most) > 1e-9 {
			t.Errorf("%s: the truth is %v, want %v, %v", name, best.Value, c.most, err)
		}
		if none, err := c.rule("mumble", c.truth); err != nil || none.Value > 0.5 {
			t.Errorf("%s: mumbling is %v, %v", name, none.Value, err)
		}
	}
}

// FuzzReplies: whatever a model writes has a score within the rule's range, and evidence that
// can be written down.
func FuzzReplies(f *testing.F) {
	for _, c := range rules {
		f.Add(c.right)
	}
	for _, s := range []string{"", "<answer>", "</answer><answer>", "<answer>[1e999, 2, 3, NaN]</answer>", "```json [{\"bbox_2d\": [0, 0, NaN, 1], \"label\": \"cup\"}] ```",
		"<answer>[{'Position': [1, 2, 1e300, 4], 'Confidence': NaN}]</answer>", `\boxed{\frac}`, `\boxed `, "#### .", "\xff\xfe", "-inf", "Answer: "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		for name, c := range rules {
			s, err := c.rule(reply, c.truth)
			if err != nil || !(s.Value >= c.least-1e-9 && s.Value <= c.most+1e-9) {
				t.Errorf("%s: %q is %v, %v", name, reply, s.Value, err)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, form := range []Form{ThinkAnswer, ThinkBoxed, ThinkBox, Thinks, Searched} {
			form(reply)
		}
		for _, d := range []DeepEyes{DeepEyesVisual(reply), DeepEyesReasoning(reply), DeepEyesMaths(reply)} {
			if d.Reward(Right) < d.Reward(Wrong) || d.MathsReward(Right) < d.MathsReward(Wrong) {
				t.Errorf("%q: wrong is better than right", reply)
			}
		}
		JudgedOne(reply)
		JudgedTrue(reply)
		JudgedTag(reply)
		if v := usualRepetition().Words(reply); !(v >= -1 && v <= 0) {
			t.Errorf("%q repeats itself by %v", reply, v)
		}
		namesIn(reply)
		var m MiniO3
		m.SetDefaults()
		m.Of([]string{reply, reply}, "A")
		NormaliseQA(reply)
	})
}

// A truth that cannot be read is a mistake of the prompts file: nothing is judged by it.
func TestTruthsThatCannotBeRead(t *testing.T) {
	for name, truth := range map[string]string{
		"mAP": "```json\n[{\"label\": \"cup\"}]\n```", "weighted": "```json {broken ```", "grounding": "somewhere", "positions": "none", "confidence": "none", "relative": "many", "AP50": "no tag", "giou": "[1, 2, 3]",
	} {
		if s, err := rules[name].rule(rules[name].right, truth); err == nil {
			t.Errorf("%s: %v for %q", name, s.Value, truth)
		}
	}
}

func TestRewards(t *testing.T) {
	item := func(reply, meta string) rewards.Item {
		i := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: reply}}}}
		if err := json.Unmarshal([]byte(meta), &i.Meta); err != nil {
			t.Fatal(err)
		}
		return i
	}
	long := item("yes", `{"answer": "yes, it is"}`)
	long.Transcript.Tokens = []int{1, 1, 1, 2}
	for _, c := range []struct {
		name   string
		reward rewards.Reward
		item   rewards.Item
		want   float64
	}{
		{"rule", Rule(YesNo).Reward(), item("no", `{"answer": "no"}`), 1},
		{"form", Form(ThinkAnswer).Reward(), item("<think>x</think><answer>y</answer>", `{}`), 1},
		{"grounding", GroundingReward(), item("<answer>[10, 10, 30, 20]</answer>", `{"seen": [100, 50], "original": [200, 100], "answer": "<answer>[20, 20, 60, 40]</answer>"}`), 1},
		{"ANLS", ANLSReward(0.5), item("<answer>red cup</answer>", `{"answer": ["a red cup", "red cup"]}`), 1},
		{"exact match", ExactMatch{}, item("<answer>The Cup!</answer>", `{"answer": "cup"}`), 1},
		{"Mini-o3", MiniO3{Right: 1}, item("<answer>A</answer>", `{"answer": "A"}`), 1},
		{"order", NDCGReward(), item("<answer>x\n- p\np</answer>", `{"answer": "p"}`), 1 / math.Log2(3)},
		{"order as JSON", NDCGReward(), item(`<answer>["p", 7]</answer>`, `{"answer": ["p", "7"]}`), 1},
		{"repeated words", Repetition{Of: "words", N: 1, Penalty: -2}, item("no no no no", `{}`), -1.5},
		{"repeated tokens", Repetition{Of: "tokens", N: 2, Penalty: -1}, long, -1. / 3},
		{"length", CosineLength{Right: []float64{1, 0.5}, Wrong: []float64{0, 0}, Limit: 4}.Reward(Rule(YesNo).Reward()), long, 0.5},
		{"a wrong answer's length", CosineLength{Right: []float64{1, 1}, Wrong: []float64{-0.5, 0}, Limit: 8, Stop: true}.Reward(Rule(Same).Reward()), long, -0.25},
	} {
		s, err := c.reward.Score(t.Context(), c.item)
		if err != nil || math.Abs(s.Value-c.want) > 1e-12 || len(s.Evidence) == 0 {
			t.Errorf("%s: %+v, want %v, %v", c.name, s, c.want, err)
		}
		if s, err := c.reward.Score(t.Context(), rewards.Item{}); err == nil {
			t.Errorf("%s: nothing at all is %v", c.name, s.Value)
		}
	}
}

func TestChoice(t *testing.T) {
	for text, want := range map[string]string{"B": "B", "(c).": "", "c.": "C", "The answer is B": "B", "E, F!": "E", "ABBA": "", "": "", "A. or B. The correct answer is B.": "B", "选择 C。": ""} {
		if got, _ := Choice(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		reply                           string
		answer, thinks, boxed, searched bool
	}{
		{"<think>a</think>\n<answer>b</answer>", true, true, false, false},
		{"<think>a<think>b</think></think><answer>c</answer>", true, false, false, false},
		{"<think>a</think><answer>b</answer> ", false, true, false, false},
		{`<think>a</think> so \boxed{x}.`, false, true, true, false},
		{"<search>q</search><answer>a</answer>", false, false, false, true},
		{"<|im_start|>user <search>q</search><|im_end|><answer>a</answer>", false, false, false, false},
	} {
		if ThinkAnswer(c.reply) != c.answer || Thinks(c.reply) != c.thinks || ThinkBoxed(c.reply) != c.boxed || Searched(c.reply) != c.searched {
			t.Errorf("%q: %v %v %v %v", c.reply, ThinkAnswer(c.reply), Thinks(c.reply), ThinkBoxed(c.reply), Searched(c.reply))
		}
	}
}

func TestRepetition(t *testing.T) {
	for reply, want := range map[string]float64{
		"one two three four five six seven": 0, "": 0, "a b c d e f a b c d e f": -1. / 7, "short": 0,
		"```json [{\"bbox_2d\": [1], \"label\": \"a\"}, {\"bbox_2d\": [1], \"label\": \"a\"}]```":                       -0.5,
		"```json [{\"bbox_2d\": [1], \"label\": \"a\"}, {\"bbox_2d\": [1.0], \"label\": \"a\"}, {\"bbox_2d\": [2]}]```": 0,
	} {
		if got := usualRepetition().Words(reply); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q: %v, want %v", reply, got, want)
		}
	}
	// By n-grams as they are named, and spelt out.
	tokens := []int{1, 2, 1, 2, 2, 1, 2, 1, 2, 2, 3}
	for n := 1; n < 13; n++ {
		seen, all := map[string]bool{}, 0
		for i := 0; i+n <= len(tokens); i++ {
			b, _ := json.Marshal(tokens[i : i+n])
			seen[string(b)] = true
			all++
		}
		want := 0.0
		if all > 0 {
			want = -2 * (1 - float64(len(seen))/float64(all))
		}
		if got := (Repetition{N: n, Penalty: -2}).Tokens(tokens); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

func TestCosineLength(t *testing.T) {
	var c CosineLength
	c.SetDefaults()
	for _, k := range []struct {
		tokens int
		right  bool
		want   float64
	}{{0, true, 1}, {1024, true, 0.5}, {2048, true, 1}, {0, false, -0.5}, {1024, false, 0}} {
		if got := c.At(k.tokens, k.right); math.Abs(got-k.want) > 1e-12 {
			t.Errorf("%d tokens, %v: %v, want %v", k.tokens, k.right, got, k.want)
		}
	}
	if c.Stop = true; c.At(5000, true) != c.At(1024, true) {
		t.Error("a longer reply is worth more than one at the limit")
	}
}

// TestReadings: a half-right answer scores a half; a box with its corners exchanged counts as no box.
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		rule         Rule
		reply, truth string
		want         float64
	}{
		{CER, "<answer>rad cap</answer>", "red cup", 5. / 7},
		{CER, "a much longer text than there is", "cup", 0},
		{WER, "a red cap", "the red cup", 1. / 3},
		{MER, "a b c d", "a b", 0.5},
		{GIoU, "<answer>[0, 0, 10, 10]</answer>", "[10, 0, 20, 10]", 1},
		{GIoU, "<answer>[0, 0, 10, 10]</answer>", "[90, 0, 100, 10]", 0.2},
		{GIoU, "<answer>[10, 10, 0, 0]</answer>", "[0, 0, 10, 10]", 0},
		{GIoU, "[0, 0, 10, 10]", "[0, 0, 10, 10]", 0},
	} {
		if s, err := c.rule(c.reply, c.truth); err != nil || math.Abs(s.Value-c.want) > 1e-12 {
			t.Errorf("%q for %q: %v, want %v, %v", c.reply, c.truth, s.Value, c.want, err)
		}
	}
}

func usualRepetition() (r Repetition) { r.SetDefaults(); return r }

// TestNoTokens: rules over tokens give no score where no tokens were recorded.
func TestNoTokens(t *testing.T) {
	i := rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "yes"}}}, Meta: rewards.Meta{"answer": json.RawMessage(`"yes"`)}}
	for name, r := range map[string]rewards.Reward{"repetition": Repetition{Of: "tokens", N: 1}, "length": usualLength().Reward(Rule(YesNo).Reward())} {
		if s, err := r.Score(t.Context(), i); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func usualLength() (c CosineLength) { c.SetDefaults(); return c }

func TestGIoUReward(t *testing.T) {
	a := boxes.Box{0, 0, 10, 10}
	if GIoUReward(a, a) != 2 || GIoUReward(a, boxes.Box{1000, 0, 1001, 1}) > 0.2 {
		t.Error(GIoUReward(a, a), GIoUReward(a, boxes.Box{1000, 0, 1001, 1}))
	}
}
