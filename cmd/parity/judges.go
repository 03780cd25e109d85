package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/vision"
)

// Judges: what they are asked, and how their answers are read.

var judgeOps = map[string]Op{
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
}

func judgeText(c *Case) {
	c.Put("text", must(judge.Ask(c.String("template"), judge.Blanks{Prompt: c.String("prompt")})))
}

// sent is a request's body, its pictures replaced by what they are.
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
	text := must(judge.Ask("flow_grpo_score", judge.Blanks{Prompt: c.String("prompt")}))
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

// judgePoint gives what upstreams make of an answer that cannot be read: 0, or null.
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
