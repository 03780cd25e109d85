package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

var rewardOps = map[string]Op{
	// Several rewards into one number or one advantage.
	"combine.dancegrpo_video":   combineDance,
	"combine.flow_factory":      combineFlowFactory,
	"combine.flow_grpo":         combineFlowGRPO,
	"combine.mixgrpo_advantage": combineMixAdvantage,
	"combine.mixgrpo_reward":    combineMixReward,
	"combine.pref_grpo":         combinePref,
	"combine.pref_grpo_spec":    combineSpec,

	// Judges: their questions, and the reading of their answers.
	"judge.parse_axes_batch":  judgeAxes,
	"judge.parse_edit_point":  judgeEdits,
	"judge.parse_point":       judgePoint,
	"judge.request_flow_grpo": judgeRequest,
	"judge.request_pref_grpo": judgeRequests,
	"judge.request_text":      judgeText,
	"judge.videoalign":        videoAlign,
	"judge.win_rate_edit":     winRates,
	"judge.win_rate_flex":     flexRates,
	"judge.win_rate_think":    winRates,

	// GenEval's rules.
	"geneval.evaluate":          genEvalEvaluate,
	"geneval.iou":               func(c *Case) { c.Put("iou", neural.PixelIoU(oneBox(c, "a"), oneBox(c, "b"))) },
	"geneval.relative_position": genEvalPosition,
	"geneval.soft_score":        genEvalSoft,

	// Distances of texts, and rewards of words that were read.
	"ocr.reward":              readWords,
	"ocr.reward_flow_factory": readWords,
	"ocr.reward_video":        readClips,
	"text.error_rates":        errorRates,
	"text.levenshtein":        levenshtein,
	"text.lower":              lowered,

	// Tesseract, where the version that cases were recorded with is installed.
	"ocr.tesseract": readByTesseract,
}

// weighted is a combination of rewards by name.
func weighted(names []string, weights []float64) rewards.Combination {
	var c rewards.Combination
	for i, n := range names {
		c.Parts = append(c.Parts, rewards.Part{Name: n, Weight: weights[i]})
	}
	return c
}

// scoresOf are a case's scores in the order of its names; a text stands for a reward that
// failed, and gives nil.
func scoresOf(c *Case) [][]float64 {
	list, _ := c.Raw("scores").([]any)
	var all [][]float64
	for i, scores := range list {
		a, ok := scores.(Array)
		if _, failed := scores.(string); !ok && !failed {
			c.complain("input scores[%d] is neither an array nor a text", i)
		}
		all = append(all, slices.Clone(a.Data))
	}
	if len(all) == 0 || len(all) != len(c.Strings("names")) {
		c.complain("%d scores have %d names", len(all), len(c.Strings("names")))
		return make([][]float64, len(c.Strings("names")))
	}
	return all
}

func combineFlowGRPO(c *Case) {
	names := c.Strings("names")
	keys := append(slices.Clone(names), "avg")
	given := c.Sub("scores")
	var scores [][]float64
	for _, n := range names {
		if n == "geneval" { // upstream reports two more numbers of it, and adds up the soft one
			keys = append(keys, "accuracy", "strict_accuracy")
			scores = append(scores, given.Sub(n).Floats("score"))
			continue
		}
		scores = append(scores, given.Floats(n))
	}
	sum := must(weighted(names, c.Floats("weights")).Of(scores))
	slices.Sort(keys)
	c.Put("avg", sum, "keys", keys)
}

func combineMixReward(c *Case) {
	names, n := c.Strings("names"), c.Int("count")
	scores, fine := scoresOf(c), truths(c, "ok")
	each, eachFine := map[string]any{}, map[string]any{}
	for k, name := range names {
		if scores[k] == nil { // the whole reward failed
			scores[k] = slices.Repeat([]float64{math.NaN()}, n)
		}
		for i := range scores[k] {
			if !fine[k*n+i] {
				scores[k][i] = math.NaN()
			}
		}
		each[name], eachFine[name] = zeroed(scores[k])
	}
	all := weighted(names, c.Floats("weights"))
	all.Shares = true
	sum := must(all.Of(scores))
	weights := must(all.Weights())
	rewarded, there := zeroed(sum)
	c.Put("rewards", rewarded, "successes", there, "weights", weights, "each", each, "each_ok", eachFine)
}

// zeroed is upstream's treatment of missing rewards, and the places of present ones.
func zeroed(x []float64) (values []float64, there []int) {
	values, there = slices.Clone(x), make([]int, len(x))
	for i, v := range x {
		if there[i] = 1; math.IsNaN(v) {
			values[i], there[i] = 0, 0
		}
	}
	return values, there
}

func combineMixAdvantage(c *Case) {
	scores, how := scoresOf(c), "rewards"
	if c.String("mix") == "advantage_aggr" {
		how = "advantages"
	}
	o := torchGroup(c.Float("trimmed_ratio"))
	if !c.Bool("use_group") {
		o.Over, o.Trim = "batch", 0
	}
	compared(c, o, how, consecutive(len(scores[0]), c.Int("group")), scores, c.Floats("weights"))
}

func combineFlowFactory(c *Case) {
	how := "rewards"
	if c.String("how") == "gdpo" {
		how = "gdpo"
	}
	compared(c, floored(how == "rewards" && c.Bool("global_std")), how, c.Ints("prompt_ids"), scoresOf(c), c.Floats("weights"))
}

func combineDance(c *Case) {
	vq, mq := c.Floats("vq"), c.Floats("mq")
	ids := consecutive(len(vq), c.Int("group"))
	a := must(torchGroup(0).Of(ids, vq))
	b := must(torchGroup(0).Of(ids, mq))
	total := must(advantage.Several{}.Add([][]float64{a, b}, []float64{c.Float("vq_coef"), c.Float("mq_coef")}))
	c.Put("vq_advantages", a, "mq_advantages", b, "total", total)
}

func combineSpec(c *Case) {
	parts, err := parseSpec(c.String("spec"))
	switch {
	case errors.Is(err, errJSON):
		c.Put("error", "Invalid JSON reward_spec")
	case errors.Is(err, errName):
		c.Put("error", "Invalid reward spec entry")
	case errors.Is(err, errWeight):
		c.Put("error", "could not convert string to float")
	default:
		check(err)
		weights := []any{}
		for _, p := range parts {
			weights = append(weights, []any{p.Name, p.Weight})
		}
		c.Put("weights", weights)
	}
}

// combinePref is Pref-GRPO's dispatcher: rewards with dimensions are compared dimension by
// dimension, and their advantages blended.
func combinePref(c *Case) {
	scores := map[string][]float64{}
	for k, s := range scoresOf(c) {
		scores[c.Strings("names")[k]] = s
	}
	o := torchGroup(0)
	if !c.Bool("use_group") {
		o.Over = "batch"
	}
	of := func(name string) []float64 {
		r, ok := scores[name]
		if !ok {
			failf("reward %q has a weight but no scores", name)
		}
		return must(o.Of(consecutive(len(r), c.Int("group")), r))
	}
	each := map[string]any{}
	var parts [][]float64
	for _, name := range c.Strings("weight_names") {
		a := of(name)
		if dims, applies := dimensions(name, scores, c.Bool("gdpo")); dims != nil {
			a = blended(of, dims, applies)
		}
		each[name] = a
		parts = append(parts, a)
	}
	sum := must(advantage.Several{}.Add(parts, c.Floats("weights")))
	if c.Bool("gdpo") {
		o.Over = "batch"
		sum = must(o.Of(make([]int, len(sum)), sum))
	}
	c.Put("each", each, "advantages", sum)
}

// dimensions are the names of a reward's parts, and where each applies.
func dimensions(name string, scores map[string][]float64, gdpo bool) (parts []string, applies [][]bool) {
	switch name {
	case "unifiedreward_edit_pointwise_image_quality", "unifiedreward_edit_pointwise_instruction_following":
		return []string{name + "_dim0", name + "_dim1"}, make([][]bool, 2)
	case "unifiedreward_flex":
		mask, ok := scores[name+"_dim_mask"]
		if !gdpo || !ok || scores[name+"_overall"] == nil || scores[name+"_dim_mean"] == nil {
			return nil, nil
		}
		where := each(mask, func(m float64) bool { return m != 0 })
		return []string{name + "_overall", name + "_dim_mean"}, [][]bool{nil, where}
	}
	return nil, nil
}

func blended(of func(name string) []float64, names []string, applies [][]bool) []float64 {
	var parts [][]float64
	var weights []float64
	for _, n := range names {
		parts, weights = append(parts, of(n)), append(weights, 1)
	}
	return blend(parts, weights, applies)
}

// blend is the weighted mean of the parts that apply to a sample: one reward with several
// dimensions, whose advantages were taken apart (Pref-GRPO). applies[k] nil: to all. A part
// that applies and is missing leaves the sample without.
func blend(parts [][]float64, weights []float64, applies [][]bool) []float64 {
	out := make([]float64, len(parts[0]))
	for i := range out {
		total := 0.0
		for k, part := range parts {
			if applies[k] == nil || applies[k][i] {
				out[i], total = out[i]+float64(weights[k]*part[i]), total+weights[k]
			}
		}
		out[i] /= total
	}
	return out
}

// Mistakes in a list of rewards.
var (
	errJSON   = errors.New("not JSON")
	errName   = errors.New("a weight without a name")
	errWeight = errors.New("not a weight")
)

// parseSpec reads which rewards are wanted, and how much they weigh, in the form that
// Pref-GRPO takes on its command line: "hpsv2:1,clip:0.5", where a name alone weighs 1, or a
// JSON object {"hpsv2": 1}. Of a name given twice the last weight counts, at the first place.
func parseSpec(spec string) ([]rewards.Part, error) {
	spec = strings.TrimSpace(spec)
	if strings.HasPrefix(spec, "{") {
		return parseObject(spec)
	}
	var parts []rewards.Part
	for _, entry := range strings.Split(spec, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, text, weighed := strings.Cut(entry, ":")
		weight := 1.0
		if weighed {
			var err error
			if weight, err = parseWeight(text); err != nil {
				return nil, fmt.Errorf("reward %q: %w", name, err)
			}
		}
		if name = strings.TrimSpace(name); name == "" {
			return nil, fmt.Errorf("%q: %w: write name:weight", entry, errName)
		}
		parts = setWeight(parts, name, weight)
	}
	return parts, nil
}

func setWeight(parts []rewards.Part, name string, weight float64) []rewards.Part {
	if i := slices.IndexFunc(parts, func(p rewards.Part) bool { return p.Name == name }); i >= 0 {
		parts[i].Weight = weight
		return parts
	}
	return append(parts, rewards.Part{Name: name, Weight: weight})
}

func parseWeight(text string) (float64, error) {
	text = strings.TrimSpace(text)
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(w) || math.IsInf(w, 0) {
		return 0, fmt.Errorf("%w: %q is not a finite number", errWeight, text)
	}
	return w, nil
}

// parseObject reads {"name": weight}, keeping the order of names.
func parseObject(spec string) ([]rewards.Part, error) {
	if !json.Valid([]byte(spec)) {
		return nil, fmt.Errorf("%w: %s", errJSON, spec)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(spec)))
	d.UseNumber()
	_, _ = d.Token() // "{": it is valid
	var parts []rewards.Part
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errJSON, err)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", errJSON, err)
		}
		weight, err := parseWeight(fmt.Sprint(value))
		if err != nil {
			return nil, fmt.Errorf("reward %q: %w", name, err)
		}
		parts = setWeight(parts, fmt.Sprint(name), weight)
	}
	return parts, nil
}

func judgeText(c *Case) {
	c.Put("text", must(judge.FillTemplate(c.String("template"), judge.Blanks{Prompt: c.String("prompt")})))
}

// sent is a request's body, its pictures replaced by their descriptions.
func sent(body []byte) any {
	var v any
	check(json.Unmarshal(body, &v))
	return described(v)
}

func described(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = described(e)
		}
	case []any:
		for i, e := range v {
			v[i] = described(e)
		}
	case string:
		head, body, ok := strings.Cut(v, ",")
		if !ok || !strings.HasPrefix(v, "data:") {
			return v
		}
		file, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return err.Error()
		}
		r, err := vision.DecodeRaster(file, vision.Limits{})
		if err != nil {
			return err.Error()
		}
		kind := "JPEG"
		if strings.HasPrefix(string(file), "\x89PNG") {
			kind = "PNG"
		}
		return fmt.Sprintf("%s,<%s %dx%d %s>", head, kind, r.Width, r.Height, map[int]string{1: "L", 3: "RGB", 4: "RGBA"}[r.Channels])
	}
	return v
}

// blank is a black picture of a case's size.
func blank(width, height int) *vision.Image {
	if width < 1 || height < 1 || width > 1<<14 || height > 1<<14 {
		failf("a picture of %d x %d", width, height)
	}
	return vision.New(width, height)
}

func judgeRequest(c *Case) {
	text := must(judge.FillTemplate("flow_grpo_score", judge.Blanks{Prompt: c.String("prompt")}))
	body := must(judge.FlowGRPO("", nil).Body([]*vision.Image{blank(c.Int("width"), c.Int("height"))}, text))
	request := sent(body)
	score, _ := judge.FinalFrom1(c.String("answer"))
	c.Put("body", request, "reward", []float64{score / 5})
}

func judgeRequests(c *Case) {
	sizes, _ := c.Raw("sizes").([]any)
	var pictures []*vision.Image
	for _, s := range sizes {
		pair, _ := s.([]any)
		if len(pair) != 2 {
			c.wrong("sizes", "pairs of width and height")
			return
		}
		w, _ := pair[0].(float64)
		h, _ := pair[1].(float64)
		pictures = append(pictures, blank(int(w), int(h)))
	}
	chat := judge.PrefGRPO("http://judge", call.NewCaller(judge.PrefPolicy(), nil))
	request := sent(must(chat.Body(pictures, c.String("text"))))
	c.Put("path", strings.TrimPrefix(chat.Endpoint(), "http://judge"), "json", request)
	c.Put("timeout_s", int(chat.Caller.Policy().Timeout.Seconds()))
}

// judgePoint gives upstreams' scores of an unreadable answer: 0, or null.
func judgePoint(c *Case) {
	reply := c.String("answer")
	score, _ := judge.FinalFrom1(reply)
	tag, _ := judge.Tag(reply)
	c.Put("flow_grpo_final", score, "flow_grpo_reward", score/5, "flow_grpo_qwenvl", tag)
	for name, read := range map[string]func(string) (float64, bool){"mixgrpo_final": judge.Final, "mixgrpo_alignment": judge.Alignment} {
		c.Put(name, nil)
		if v, ok := read(reply); ok {
			c.Put(name, v)
		}
	}
}

func judgeAxes(c *Case) {
	for _, axis := range judge.Axes {
		c.Put(strings.ToLower(axis), filledMarks(c.Strings("answers"), axis))
	}
}

func judgeEdits(c *Case) {
	marks, _ := judge.EditMarks(c.String("answer"))
	c.Put("scores", marks[:])
}

// comparisons reads rows of [first, second, answer].
func comparisons(c *Case) []judge.Comparison {
	list, _ := c.Raw("answers").([]any)
	var out []judge.Comparison
	for _, e := range list {
		row, _ := e.([]any)
		if len(row) != 3 {
			c.wrong("answers", "rows of two numbers and a text")
			return nil
		}
		first, _ := row[0].(float64)
		second, _ := row[1].(float64)
		reply, _ := row[2].(string)
		out = append(out, judge.Comparison{First: int(first), Second: int(second), Reply: reply})
	}
	return out
}

func winRates(c *Case) {
	read := judge.Thinking
	if c.Op == "judge.win_rate_edit" {
		read = judge.Editing
	}
	rates := must(judge.WinRates(c.Int("count"), comparisons(c), read(c.String("better_1"), c.String("better_2"))))
	c.Put("rewards", rates)
}

func flexRates(c *Case) {
	f := judge.Flex{Overall: c.Float("overall_weight"), Dimensions: c.Float("dim_weight"), UpstreamSlip: true}
	c.Given("category_weights", &f.Categories)
	r := must(f.Rates(c.Int("count"), comparisons(c)))
	c.Put("rewards", r.Rewards, "overall", r.Overall, "dim_mean", r.Dimensions, "dim_used", r.Judged)
}

func videoAlign(c *Case) {
	norm := videoAlignNorm{deviation: videoAlignMarks{Visual: 1, Motion: 1, Alignment: 1}}
	if c.Has("norm") && c.Bool("use_norm") {
		n := c.Sub("norm")
		of := func(what string) videoAlignMarks {
			return videoAlignMarks{Visual: n.Float("VQ_" + what), Motion: n.Float("MQ_" + what), Alignment: n.Float("TA_" + what)}
		}
		norm = videoAlignNorm{mean: of("mean"), deviation: of("std")}
	}
	out := []any{}
	for _, row := range samples(c.Array("logits")) {
		if len(row) != 3 {
			failf("%d numbers of a clip: three are needed", len(row))
		}
		v := norm.of(videoAlignMarks{Visual: row[0], Motion: row[1], Alignment: row[2]})
		out = append(out, map[string]any{"VQ": v.Visual, "MQ": v.Motion, "TA": v.Alignment, "Overall": v.overall()})
	}
	c.Put("rewards", out)
}

// filledMarks are the marks of a batch on one axis, with the mean where one is missing.
func filledMarks(replies []string, axis string) []float64 {
	out, found := make([]float64, len(replies)), make([]bool, len(replies))
	sum, n := 0.0, 0
	for i, r := range replies {
		if out[i], found[i] = judge.Marks(r)[axis]; found[i] {
			sum, n = sum+out[i], n+1
		}
	}
	for i := range out {
		if !found[i] {
			out[i] = sum / float64(max(1, n))
		}
	}
	return out
}

// Card: VideoAlign (KwaiVGI/VideoAlign, inference.py) puts a head on a vision-language model and
// takes three numbers of a clip: visual quality, motion quality, alignment with the text. Each is
// normalised by the mean and deviation of its training set, and they are added up.

// videoAlignMarks are its three numbers.
type videoAlignMarks struct{ Visual, Motion, Alignment float64 }

// overall is their sum.
func (v videoAlignMarks) overall() float64 { return v.Visual + v.Motion + v.Alignment }

// A videoAlignNorm is a mean and a deviation.
type videoAlignNorm struct{ mean, deviation videoAlignMarks }

// of normalises.
func (n videoAlignNorm) of(v videoAlignMarks) videoAlignMarks {
	return videoAlignMarks{(v.Visual - n.mean.Visual) / n.deviation.Visual, (v.Motion - n.mean.Motion) / n.deviation.Motion, (v.Alignment - n.mean.Alignment) / n.deviation.Alignment}
}

// genEvalRules are the published rules with a case's options, and upstream's slip.
func genEvalRules(c *Case) neural.GenEvalRules {
	o, g := c.Sub("options"), neural.GenEvalRules{}
	g.SetDefaults()
	g.UpstreamSlip = true
	g.Threshold = numberOr(o, "threshold", g.Threshold)
	g.CountingThreshold = numberOr(o, "counting_threshold", g.CountingThreshold)
	g.MostObjects = int(numberOr(o, "max_objects", float64(g.MostObjects)))
	g.MaxOverlap = numberOr(o, "max_overlap", g.MaxOverlap)
	g.PositionThreshold = numberOr(o, "position_threshold", g.PositionThreshold)
	return g
}

func genEvalPosition(c *Case) {
	r := genEvalRules(c).Relations(oneBox(c, "a"), oneBox(c, "b"))
	slices.Sort(r)
	c.Put("relations", append([]string{}, r...))
}

// genEvalWish reads a case's metadata.
func genEvalWish(c *Case) neural.Wish {
	m := c.Sub("metadata")
	w := neural.Wish{Tag: m.String("tag")}
	clauses := func(name string) (list []neural.Clause) {
		if !m.Has(name) {
			return nil
		}
		for _, s := range m.Subs(name) {
			one := neural.Clause{Class: s.String("class"), Count: s.Int("count"), Color: text(s, "color", "")}
			if s.Has("position") {
				pair, _ := s.Raw("position").([]any)
				if len(pair) != 2 {
					s.wrong("position", "a relation and a target")
					continue
				}
				relation, _ := pair[0].(string)
				target, _ := pair[1].(float64)
				one.Position = &neural.Place{Relation: relation, Target: int(target)}
			}
			list = append(list, one)
		}
		return list
	}
	w.Include, w.Exclude = clauses("include"), clauses("exclude")
	return w
}

// genEvalFound reads a case's detections.
func genEvalFound(c *Case) []rewards.Detection {
	var found []rewards.Detection
	all, _ := c.Raw("detections").(map[string]any)
	for class := range all {
		d := c.Sub("detections").Sub(class)
		b, colors := d.Array("boxes"), d.Strings("colors")
		if len(b.Data) != 5*len(colors) {
			c.complain("%q has %d numbers and %d colours", class, len(b.Data), len(colors))
			return nil
		}
		for i, color := range colors {
			r := b.Data[5*i : 5*i+5]
			found = append(found, rewards.Detection{Class: class, Color: color, Box: boxes.Box(r[:4]), Score: r[4]})
		}
	}
	return found
}

func genEvalResult(c *Case) (neural.GenEvalResult, map[string][]rewards.Detection) {
	g, w := genEvalRules(c), genEvalWish(c)
	kept := g.Keep(genEvalFound(c), w.Tag)
	return must(g.Evaluate(kept, w)), kept
}

func genEvalEvaluate(c *Case) {
	v, kept := genEvalResult(c)
	counts := map[string]any{}
	for class, list := range kept {
		counts[class] = len(list)
	}
	c.Put("correct", v.Correct, "kept", counts)
}

func genEvalSoft(c *Case) {
	v, _ := genEvalResult(c)
	c.Put("correct", v.Correct, "strict_correct", v.Strict, "score", v.Soft)
}

func levenshtein(c *Case) {
	a, b := c.String("a"), c.String("b")
	c.Put("runes", edits.Distance(a, b), "bytes", edits.Distance(asBytes(a), asBytes(b)), "ratio", edits.Ratio(a, b))
	c.Put("len_runes", []int{utf8.RuneCountInString(a), utf8.RuneCountInString(b)})
	c.Put("len_bytes", []int{len(a), len(b)})
}

// asBytes makes a character of every byte.
func asBytes(s string) string {
	return string(times(len(s), func(i int) rune { return rune(s[i]) }))
}

func lowered(c *Case) {
	c.Put("lower", pytext.Lower(c.String("a")), "no_spaces", strings.ReplaceAll(c.String("a"), " ", ""))
}

func errorRates(c *Case) {
	want, got := c.String("want"), c.String("got")
	c.Put("wer", edits.WER(want, got), "cer", edits.CER(want, got), "mer", edits.MER(want, got))
}

// linesOf reads the answer of a case's engine for one picture; the word "error" stands for an engine that failed.
func linesOf(c *Case, v any) (lines []rewards.Line, failed bool) {
	if _, failed = v.(string); failed {
		return nil, true
	}
	list, _ := v.([]any)
	for _, e := range list {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			c.complain("a line that was read is a text and a confidence, not %v", e)
			return nil, false
		}
		words, _ := pair[0].(string)
		sure, _ := pair[1].(float64)
		lines = append(lines, rewards.Line{Text: words, Confidence: sure})
	}
	return lines, false
}

// readWords scores 0 a picture on which the engine failed, as upstreams do; ours is missing.
func readWords(c *Case) {
	rule := rewards.OCRRule{Formula: "flow_grpo"}
	if c.Op == "ocr.reward_flow_factory" {
		rule.Formula = "flow_factory"
	}
	list, _ := c.Raw("read").([]any)
	out := []float64{}
	for i, prompt := range c.Strings("prompts") {
		if i >= len(list) {
			c.wrong("read", "one for each prompt")
			return
		}
		lines, failed := linesOf(c, list[i])
		target, err := rule.Target(prompt)
		if failed && err != nil && spaced(prompt) { // they divide by the length before spaces go
			out = append(out, 0)
			continue
		}
		if err != nil {
			raised(c, prompt, err)
			return
		}
		value := 0.0
		if !failed {
			value = rule.Of(target, lines)
		}
		out = append(out, value)
	}
	c.Put("rewards", out)
}

// spaced reports whether a prompt's target is nothing but spaces.
func spaced(prompt string) bool {
	parts := strings.SplitN(prompt, `"`, 3)
	return len(parts) > 1 && parts[1] != "" || len(parts) == 1 && prompt != ""
}

// raised is upstreams' exception where a prompt has no target: a whole batch is lost.
func raised(c *Case, prompt string, err error) {
	if !errors.Is(err, rewards.ErrNoTarget) {
		check(err)
	}
	if strings.Contains(prompt, `"`) || c.Op == "ocr.reward_flow_factory" {
		c.Put("error", "division by zero")
	} else {
		c.Put("error", "no quoted text")
	}
}

func readClips(c *Case) {
	rule := rewards.OCRRule{Formula: "flowcps", Interval: c.Int("frame_interval")}
	list, _ := c.Raw("read").([]any)
	out := []float64{}
	for i, prompt := range c.Strings("prompts") {
		target, err := rule.Target(prompt)
		if err != nil {
			raised(c, prompt, err)
			return
		}
		if i >= len(list) || rule.Interval < 1 {
			c.wrong("read", "one for each prompt")
			return
		}
		frames, _ := list[i].([]any)
		var each []float64
		for k := 0; k < len(frames); k += rule.Interval {
			lines, failed := linesOf(c, frames[k])
			value := 0.0
			if !failed {
				value = rule.Of(target, lines)
			}
			each = append(each, value)
		}
		out = append(out, rule.Mean(each))
	}
	c.Put("rewards", out)
}

const recordedTesseract = "tesseract 5.3.0"

func readByTesseract(c *Case) {
	ctx := context.Background()
	t := rewards.Tesseract{Language: c.String("lang"), Layout: c.Int("psm")}
	version, err := t.Version(ctx)
	if err != nil {
		check(Skipped{err.Error()})
	}
	if version != recordedTesseract {
		check(Skipped{fmt.Sprintf("%s is installed, cases were recorded with %s", version, recordedTesseract)})
	}
	path := c.File("image")
	text := must(t.Text(ctx, path))
	table, words := must2(t.Words(ctx, path))
	list := []any{}
	for _, w := range words {
		list = append(list, map[string]any{"text": w.Text, "conf": w.Confidence, "left": w.Left, "top": w.Top, "width": w.Width, "height": w.Height,
			"block": w.Block, "par": w.Paragraph, "line": w.Line, "word": w.Word})
	}
	c.Put("text", strings.TrimSuffix(text, "\f"), "words", list, "tsv", table)
}
