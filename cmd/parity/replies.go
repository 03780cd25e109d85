package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/edits"
)

var replyOps = map[string]Op{
	// Rules for answers of vision-language models.
	"vlm.answer_boxed":                     answerBoxed,
	"vlm.answer_dapo":                      answerDAPO,
	"vlm.answer_em":                        answerExact,
	"vlm.answer_gsm8k":                     answerGSM8K,
	"vlm.judge_parse_vrag":                 judgedByTag,
	"vlm.reward_anls":                      rewardANLS,
	"vlm.reward_answer_default":            answerDefault,
	"vlm.reward_cosine_length":             cosineLength,
	"vlm.reward_curiosity":                 curiosity,
	"vlm.reward_curiosity_upstream_defect": curiosityDefect,
	"vlm.reward_deepeyes":                  deepEyes,
	"vlm.reward_deepeyes_common":           deepEyes,
	"vlm.reward_deepeyes_math":             deepEyesMath,
	"vlm.reward_detection_confidence":      detectionConfidence,
	"vlm.reward_format":                    replyFormat,
	"vlm.reward_giou":                      rewardGIoU,
	"vlm.reward_mcq":                       multipleChoice,
	"vlm.reward_minio3":                    miniO3,
	"vlm.reward_mra":                       relativeAccuracy,
	"vlm.reward_ndcg":                      func(c *Case) { c.Put("ndcg", answers.NDCG(c.Strings("docs"), c.Strings("golds"), false)) },
	"vlm.reward_od":                        objectDetection,
	"vlm.reward_rec_format":                func(c *Case) { c.Put("reward", one(answers.ThinkBox(c.String("text")))) },
	"vlm.reward_rec_iou":                   grounding,
	"vlm.reward_repetition_ids":            repeatedTokens,
	"vlm.reward_repetition_words":          repeatedWords,
	"vlm.reward_tool_accumulative":         toolRewards,
	"vlm.reward_vrag_format":               searchedFormat,
	"vlm.reward_yes_no":                    func(c *Case) { ruled(c, answers.YesNo) },

	// Boxes: overlaps, pairs, average precision, and rewards of lists of boxes.
	"boxes.assign":                assignRows,
	"boxes.ciou":                  overlaps,
	"boxes.coco_ap":               averagePrecision,
	"boxes.convert":               convertBoxes,
	"boxes.diou":                  overlaps,
	"boxes.giou":                  overlaps,
	"boxes.iou":                   overlaps,
	"boxes.layout_reward":         matchedLayout,
	"boxes.nms":                   suppressBoxes,
	"boxes.visual_rft":            positionLists,
	"boxes.vlmr1_detection_score": weightedDetection,
	"boxes.vlmr1_iou":             func(c *Case) { c.Put("iou", answers.PixelOverlap(oneBox(c, "a"), oneBox(c, "b"))) },
	"boxes.vlmr1_map_reward":      mapReward,
}

func grounding(c *Case) {
	grid, size := c.Ints("grid_thw"), c.Ints("image_wh")
	if len(grid) != 3 || len(size) != 2 {
		failf("a grid of %v and a size of %v", grid, size)
	}
	g := answers.Grounding{Seen: [2]int{grid[2] * c.Int("patch"), grid[1] * c.Int("patch")}, Original: [2]int{size[0], size[1]}}
	c.Put("reward", must(g.Rule(c.String("text"), c.String("solution"))).Value)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// objectDetection gives null where upstream raises: where the truth cannot be read.
func objectDetection(c *Case) {
	reply, truth := c.String("text"), c.String("solution")
	for name, rule := range map[string]answers.Rule{
		"map": answers.MAP{}.Detected, "ap50": answers.MAP{Fifty: true}.Detected, "length": answers.MAP{Length: true}.Detected,
		"weighted": func(reply, truth string) (rewards.Score, error) {
			return answers.Weighted(answers.Clean(reply), answers.Clean(truth))
		},
	} {
		c.Put(name, nil)
		if s, err := rule(reply, truth); err == nil {
			c.Put(name, s.Value)
		}
	}
}

// ruled answers cases of one rule.
func ruled(c *Case, rule answers.Rule) {
	c.Put("reward", must(rule(c.String("text"), c.String("solution"))).Value)
}

func multipleChoice(c *Case) {
	c.Put("choice", nil)
	if choice, ok := answers.Choice(c.String("text")); ok {
		c.Put("choice", choice)
	}
	ruled(c, answers.MultipleChoice)
}

func answerDefault(c *Case) {
	reply, truth := answers.Clean(c.String("text")), answers.Clean(c.String("solution"))
	same := must(answers.Same(c.String("text"), c.String("solution")))
	c.Put("cleaned", reply, "all_match", same.Value, "ratio", edits.Ratio(reply, truth))
	ruled(c, answers.Default)
}

func cosineLength(c *Case) {
	var l answers.CosineLength
	l.SetDefaults()
	c.Put("reward", l.At(c.Int("length"), true))
}

func repeatedWords(c *Case) {
	var r answers.Repetition
	r.SetDefaults()
	c.Put("reward", r.Words(c.String("text")))
}

func repeatedTokens(c *Case) {
	list, _ := c.Raw("ids").([]any)
	out := []float64{}
	for _, row := range list {
		var tokens []int
		numbers, _ := row.([]any)
		for _, x := range numbers {
			id, ok := x.(float64)
			if !ok {
				c.wrong("ids", "lists of tokens")
			}
			tokens = append(tokens, int(id))
		}
		r := answers.Repetition{Of: "tokens", N: c.Int("n"), Penalty: c.Float("max_penalty")}
		out = append(out, r.Tokens(tokens))
	}
	c.Put("rewards", out)
}

func replyFormat(c *Case) {
	reply := c.String("text")
	c.Put("think_answer", one(answers.ThinkAnswer(reply)), "easyr1_r1v", one(answers.ThinkAnswer(reply)))
	c.Put("trl_think", one(answers.Thinks(reply)), "boxed", one(answers.ThinkBoxed(reply)))
}

func detectionConfidence(c *Case) {
	reply, truth := c.String("text"), c.String("solution")
	c.Put("iou", must(answers.DetectionIoU(reply, truth)).Value)
	c.Put("confidence", must(answers.DetectionConfidence(reply, truth)).Value)
}

func rewardGIoU(c *Case) {
	truth, found := oneBox(c, "truth"), oneBox(c, "pred")
	c.Put("iou", boxes.IoU(truth, found))
	for i := range truth {
		truth[i] /= c.Float("scale")
		found[i] /= c.Float("scale")
	}
	c.Put("reward", answers.GIoUReward(truth, found))
}

func deepEyes(c *Case) {
	reply, judge := c.String("text"), c.String("judge_reply")
	if c.Op == "vlm.reward_deepeyes_common" {
		c.Put("reward", answers.DeepEyesReasoning(reply).Reward(answers.JudgedTrue(judge)))
		return
	}
	c.Put("reward", answers.DeepEyesVisual(reply).Reward(answers.JudgedOne(judge)))
}

func deepEyesMath(c *Case) {
	v := answers.JudgedTrue(c.String("judge_reply"))
	if c.Bool("rule_equal") {
		v = answers.Right
	}
	c.Put("reward", answers.DeepEyesMaths(c.String("text")).MathsReward(v))
}

func miniO3(c *Case) {
	w, m := c.Sub("weights"), answers.MiniO3{}
	m.SetDefaults()
	m.Right = numberOr(w, "acc_reward_weight", m.Right)
	m.Form = numberOr(w, "format_reward_weight", m.Form)
	m.Tool = numberOr(w, "use_tool_reward_weight", m.Tool)
	m.Penalty = numberOr(w, "tool_call_penalty", m.Penalty)
	v := m.Of(c.Strings("turns"), c.String("truth"))
	c.Put("score", v.Score, "acc", m.Right*one(v.Correct), "format_score", m.Form*one(v.Formed))
	c.Put("format", one(v.Formed), "tool_turns", v.Tools)
}

// attempts reads a group, or several behind each other.
func attempts(c *Case) []answers.Attempt {
	right, calls, clips, failed := c.Floats("correct"), c.Ints("calls"), c.Ints("video"), c.Ints("last_op_failed")
	if len(calls) != len(right) || len(clips) != len(right) || len(failed) != len(right) {
		c.complain("lists of %d, %d, %d and %d samples", len(right), len(calls), len(clips), len(failed))
		return nil
	}
	group := make([]answers.Attempt, len(right))
	for i := range group {
		group[i] = answers.Attempt{Right: right[i], Calls: calls[i], Clip: clips[i] != 0, Failed: failed[i] != 0}
	}
	return group
}

func curiosity(c *Case) {
	s := answers.DefaultCuriosity().Of(attempts(c))
	c.Put("rewards", s.Rewards, "curiosity", s.Curiosity, "penalty", s.Penalty, "uniform", one(s.Uniform))
	c.Put("difficulty", s.Difficulty, "right_without_tool", one(s.RightWithoutTool))
}

// curiosityDefect repeats upstream's slip beside ours: failures of the first group judge all.
func curiosityDefect(c *Case) {
	all, n := attempts(c), c.Int("group_size")
	if n < 1 || len(all)%n != 0 {
		failf("%d samples in groups of %d", len(all), n)
	}
	intended, upstream := []float64{}, []float64{}
	for from := 0; from < len(all); from += n {
		group := append([]answers.Attempt{}, all[from:from+n]...)
		intended = append(intended, answers.DefaultCuriosity().Of(group).Rewards...)
		for i := range group {
			group[i].Failed = all[i].Failed
		}
		upstream = append(upstream, answers.DefaultCuriosity().Of(group).Rewards...)
	}
	c.Put("intended", intended, "upstream", upstream)
}

func relativeAccuracy(c *Case) {
	for name, exact := range map[string]bool{"mra": false, "exact": true} {
		c.Put(name, must(answers.Relative{Exact: exact}.Rule(c.String("text"), c.String("truth"))).Value)
	}
}

// toolRewards are PyVision-RL's rewards on tokens (reward_manager/naive.py): a reply's score sits on its last token;
// rewards of tools stay at their tokens, and count only where the answer is right.
func toolRewards(c *Case) {
	earned, lengths, right, score := mat(c, "env_reward"), c.Ints("lengths"), c.Ints("right"), c.Floats("score")
	if len(lengths) != len(earned) || len(right) != len(earned) || len(score) != len(earned) {
		failf("lists of %d, %d, %d and %d replies", len(earned), len(lengths), len(right), len(score))
	}
	var out [][]float64
	for i := range earned {
		row, last := make([]float64, len(earned[i])), lengths[i]-1
		if last < 0 || last >= len(row) {
			failf("a reply of %d tokens among %d", lengths[i], len(row))
		}
		if right[i] != 0 {
			copy(row, earned[i])
		}
		row[last] += score[i]
		out = append(out, row)
	}
	c.Put("token_rewards", c.like("env_reward", out))
}

func rewardANLS(c *Case) {
	c.Put("score", answers.ANLS(c.String("pred"), c.Strings("golds"), c.Float("threshold")))
}

func searchedFormat(c *Case) {
	c.Put("format", one(answers.Searched(c.String("text"))), "answer", nil)
	if a, ok := answers.AnswerBeforeEnd(c.String("text")); ok {
		c.Put("answer", a)
	}
}

func judgedByTag(c *Case) {
	c.Put("verdict", nil)
	if v := answers.JudgedTag(c.String("reply")); v != answers.Unclear {
		c.Put("verdict", v == answers.Right)
	}
}

func answerDAPO(c *Case) {
	out := []float64{}
	for _, truth := range c.Strings("truths") {
		out = append(out, must(answers.DAPO(c.String("text"), truth)).Value)
	}
	c.Put("normalised", answers.NormaliseDAPO(answers.DAPOAnswer(c.String("text"))), "rewards", out)
}

func answerBoxed(c *Case) {
	c.Put("reward", must(answers.Boxed(c.String("text"), c.String("truth"))).Value, "boxed", nil, "stripped", nil)
	if box, ok := answers.LastBoxed(c.String("text")); ok {
		c.Put("boxed", box)
		said, whole := answers.Unboxed(box)
		if bare, fine := answers.NormaliseMATH(said); whole && fine {
			c.Put("stripped", bare)
		}
	}
}

func answerExact(c *Case) {
	for _, name := range []string{"extracted", "normalised", "em", "sub_em"} {
		c.Put(name, nil)
	}
	if said, ok := answers.TaggedAnswer(c.String("text")); ok {
		c.Put("extracted", said, "normalised", answers.NormaliseQA(said))
		c.Put("em", one(answers.ExactMatch{}.Of(said, c.Strings("golds"))))
		c.Put("sub_em", one(answers.ExactMatch{Contained: true}.Of(said, c.Strings("golds"))))
	}
}

func answerGSM8K(c *Case) {
	for name, flexible := range map[string]bool{"strict": false, "flexible": true} {
		c.Put(name, nil)
		if a, ok := (answers.GSM8K{Flexible: flexible}).Answer(c.String("text")); ok {
			c.Put(name, a)
		}
	}
}

// boxList reads an input [n, 4].
func boxList(c *Case, name string) []boxes.Box {
	a := c.Array(name)
	if len(a.Data)%4 != 0 {
		c.wrong(name, "an array of boxes")
		return nil
	}
	return times(len(a.Data)/4, func(i int) boxes.Box { return boxes.Box(a.Data[4*i : 4*i+4]) })
}

// oneBox reads an input of four numbers.
func oneBox(c *Case, name string) boxes.Box {
	if list := boxList(c, name); len(list) == 1 {
		return list[0]
	}
	c.wrong(name, "a box")
	return boxes.Box{}
}

// overlaps gives NaN, as torchvision does, where ours is 0: where nothing is covered, or a box has
// no shape.
func overlaps(c *Case) {
	kind := c.Op[len("boxes."):]
	of := map[string]func(a, b boxes.Box) float64{"iou": boxes.IoU, "giou": boxes.GIoU, "diou": boxes.DIoU, "ciou": boxes.CIoU}[kind]
	shapeless := func(b boxes.Box) bool { return b[0] == b[2] && b[1] == b[3] }
	a, b := boxList(c, "a"), boxList(c, "b")
	out := Array{Shape: []int{len(a), len(b)}}
	for _, x := range a {
		for _, y := range b {
			v := of(x, y)
			if _, either := boxes.Overlap(x, y); either == 0 || kind == "ciou" && (shapeless(x) || shapeless(y)) {
				v = math.NaN()
			}
			out.Data = append(out.Data, v)
		}
	}
	c.Put(kind, out)
}

func convertBoxes(c *Case) {
	out := Array{Shape: c.Array("boxes").Shape}
	for _, b := range boxList(c, "boxes") {
		b := must(boxes.Convert(b, c.String("from"), c.String("to")))
		out.Data = append(out.Data, b[:]...)
	}
	c.Put("boxes", out)
}

func suppressBoxes(c *Case) {
	c.Put("keep", boxes.Suppress(boxList(c, "boxes"), c.Floats("scores"), c.Float("threshold")))
}

func assignRows(c *Case) {
	score := samples(c.Array("score"))
	rows, columns := must2(boxes.Assign(score, c.Bool("maximize")))
	total := 0.0
	for k, i := range rows {
		total += score[i][columns[k]]
	}
	c.Put("row", rows, "col", columns, "total", total)
}

func matchedLayout(c *Case) {
	m := boxes.Matching{Score: c.String("score"), Threshold: c.Float("threshold"), DivideBy: c.String("divide_by")}
	labelled := func(name string) []boxes.Labelled {
		list, labels := boxList(c, name), c.Strings(name+"_label")
		if len(list) != len(labels) {
			c.complain("%d boxes have %d labels", len(list), len(labels))
			return nil
		}
		out := times(len(list), func(i int) boxes.Labelled { return boxes.Labelled{Box: list[i], Label: labels[i]} })
		return out
	}
	reward, pairs := must2(m.Match(labelled("pred"), labelled("want")))
	list := []any{}
	for _, p := range pairs {
		list = append(list, []any{p.Found, p.Want, p.Score})
	}
	c.Put("reward", reward, "pairs", list)
}

func averagePrecision(c *Case) {
	var truth []boxes.Truth
	for _, r := range sevens(c, "truth") {
		truth = append(truth, boxes.Truth{Image: int(r[0]), Class: int(r[1]), Rect: boxes.Rect{X: r[2], Y: r[3], W: r[4], H: r[5]}, Crowd: r[6] != 0})
	}
	var found []boxes.Found
	for _, r := range sevens(c, "found") {
		found = append(found, boxes.Found{Image: int(r[0]), Class: int(r[1]), Rect: boxes.Rect{X: r[2], Y: r[3], W: r[4], H: r[5]}, Score: r[6]})
	}
	classes := c.Int("classes")
	if classes < 0 || classes > 1e5 {
		failf("%d classes", classes)
	}
	p := boxes.AveragePrecision(truth, found, classes)
	c.Put("stats", []float64{p.AP, p.AP50, p.AP75, p.APSmall, p.APMedium, p.APLarge, p.AR1, p.AR10, p.AR100, p.ARSmall, p.ARMedium, p.ARLarge})
	c.Put("ap_per_class", p.PerClass)
}

func sevens(c *Case, name string) [][]float64 {
	a := c.Array(name)
	if len(a.Data)%7 != 0 {
		c.wrong(name, "rows of seven numbers")
		return nil
	}
	var list [][]float64
	for i := 0; i < len(a.Data); i += 7 {
		list = append(list, a.Data[i:i+7])
	}
	return list
}

func weightedDetection(c *Case) {
	c.Put("score", must(answers.Weighted(c.String("content"), c.String("solution"))).Value)
}

func mapReward(c *Case) {
	m := answers.MAP{Fifty: c.Int("score_type") == 1, Length: c.Bool("length_reward")}
	c.Put("reward", must(m.Rule(c.String("content"), c.String("solution"))).Value)
}

func positionLists(c *Case) {
	p := must(answers.JudgePositions(c.String("answer"), c.String("solution")))
	matches := []any{}
	for _, m := range p.Matches {
		matches = append(matches, []float64{m.IoU, m.Confidence})
	}
	c.Put("parsed", p.Found, "matches", matches, "iou_reward", p.IoU, "iou_reward_v1", p.Mean)
	c.Put("confidence_reward", p.Sure)
}
