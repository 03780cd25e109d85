package main

import (
	"errors"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Conversations to learn from: their tokens, which of them are trained, and the loss.

var sftOps = map[string]Op{
	"sft.llamafactory": sftTurns,
	"sft.loss":         sftLoss,
	"sft.tokens":       sftWhole,
}

// lessons is what makes lessons of a case, and its pictures in patches.
func lessons(c *Case) (r sft.Reader, grids []vlm.Grid) {
	r.Tokens = vlmTokens(c)
	r.Template = must(vlm.TemplateNamed(c.String("template")))
	r.Marks = must(vlm.MarksOf(r.Tokens))
	p := vlm.NewProcessor()
	p.Patch, p.Merge, p.Pixels = c.Int("patch_size"), c.Int("merge_size"), vlm.Pixels{Min: c.Int("min_pixels"), Max: c.Int("max_pixels")}
	r.Merge = p.Merge
	for _, s := range groups(c, "image_hw", 2) {
		grids = append(grids, must(p.Grid(s[1], s[0])))
	}
	return r, grids
}

func sftWhole(c *Case) {
	r, grids := lessons(c)
	messages := must(vlm.ReadMessages(c.Text("messages")))
	var how vlm.Rendering
	if c.Has("tools") {
		how.Tools = must(vlm.ReadTools(c.Text("tools")))
	}
	text := must(r.Template.Render(messages, how))
	l := must(r.Whole(messages, how, grids, nil))
	mask := make([]int, len(l.Trained))
	for i, on := range l.Trained {
		if on {
			mask[i] = 1
		}
	}
	c.Put("text", text, "input_ids", to[int](l.IDs), "assistant_mask", mask, "grid_thw", gridRows(grids))
}

func sftTurns(c *Case) {
	r, grids := lessons(c)
	format, ok := sft.Formats[c.String("format")]
	style, known := sft.Styles[c.String("lf_template")]
	if !ok || !known {
		failf("format %q, form %q: one is not known", c.String("format"), c.String("lf_template"))
	}
	var how sft.How
	options, _ := c.Raw("options").(map[string]any)
	how.MaskHistory, how.TrainOnPrompt, how.NoThinking = options["mask_history"] == true, options["train_on_prompt"] == true, options["enable_thinking"] == false
	row, err := sft.ReadRow(c.Text("row"), format)
	if err == nil {
		var l sft.Lesson
		if l, err = r.Turns(row, style, how, grids); err == nil {
			c.Put("input_ids", to[int](l.IDs), "labels", to[int](l.Labels()))
			return
		}
	}
	switch {
	case errors.Is(err, sft.ErrDropped):
		c.Put("dropped", true)
	case errors.Is(err, sft.ErrPictures):
		c.Put("error", "ValueError")
	default:
		check(err)
	}
}

// sftLoss is the mean over all trained tokens of a batch, and its gradients.
func sftLoss(c *Case) {
	runFolder(c, c.Dir(), how{}, func(n *network) {
		r := newReader(n)
		ids := c.Array("input_ids")
		batch, length := ids.Shape[0], ids.Shape[1]
		labels := c.Ints("labels")
		nll, rows := make([]float64, batch*(length-1)), make([]float64, batch)
		var parts []*autograd.Value
		var logProb, mask [][]float64
		for b := range batch {
			lp, at := r.lesson(labels[b*length:(b+1)*length], b, length)
			logProb, mask = append(logProb, make([]float64, length)), append(mask, make([]float64, length))
			for i, x := range lp.F32() {
				nll[b*(length-1)+at[i]] = -float64(x)
				rows[b] -= float64(x) / float64(len(at))
				logProb[b][i], mask[b][i] = float64(x), 1
			}
			parts = append(parts, lp)
		}
		mean, slopes := must2(loss.Likelihood(logProb, mask, loss.Aggregate{Mode: "token-mean"}, false))
		accumulated, _ := must2(loss.Likelihood(logProb, mask, loss.Aggregate{Mode: "token-mean", Tokens: float64(c.Int("num_items"))}, false))
		c.Put("loss", mean, "loss_accumulated", accumulated)
		c.Put("token_nll", Array{Shape: []int{batch, length - 1}, Data: nll}, "row_loss", rows)
		var seeds []autograd.Seed
		for b, lp := range parts {
			seeds = append(seeds, autograd.Seed{Of: lp, Grad: to[float32](slopes[b][:lp.Dim(0)])})
		}
		n.tape.Backward(seeds...)
		n.namedGradients()
	})
}

// lesson is the log-probabilities of a row's trained tokens, and where each token before them stands.
func (r *reader) lesson(labels []int, b, length int) (lp *autograd.Value, at []int) {
	var real []int
	for i, m := range r.Ints("attention_mask")[b*length : (b+1)*length] {
		if m != 0 {
			real = append(real, i)
		}
	}
	s, values := r.row(r.Ints("input_ids")[b*length:(b+1)*length], real)
	hidden := must(r.m.HiddenOf(r.tape, s, values[0], values[1]))
	var rows, next []int32
	for k, i := range real[1:] {
		if labels[i] >= 0 {
			rows, next, at = append(rows, int32(k)), append(next, int32(labels[i])), append(at, i-1)
		}
	}
	return r.m.LogProbs(r.tape, hidden, rows, next, 1), at
}
