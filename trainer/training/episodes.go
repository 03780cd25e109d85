package training

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
	"github.com/darkroom-rl/darkroom/trainer/rollout/episodes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// What is particular to a run whose samples are conversations: the model, what rewards are told
// of one, credit for tokens, and how tools are used.

// learning is a policy that is trained, a painter or a speaker.
type learning interface {
	trainer.Policy
	State() ([]*autograd.Param, *optim.Mover, map[trainer.Weights]*optim.Shadow)
	Forget(w trainer.Weights) error
}

// learning is the model's policy.
func (m *model) learning() learning {
	if m.talk != nil {
		return m.talk
	}
	return m.policy
}

// trained is which parameters a folder is opened to train; none where there is an adapter.
func trained(e *experiment.Experiment) (patterns []string, adapted bool) {
	switch {
	case len(e.Model.Train) == 1 && e.Model.Train[0] == "lora":
		return nil, true
	case len(e.Model.Train) == 1 && e.Model.Train[0] == "full":
		return []string{".*"}, false
	}
	return e.Model.Train, false
}

// openTalker opens a vision-language model's folder. Questions open their pictures when asked.
func openTalker(e *experiment.Experiment, o Options, lists ...[]prompts.Prompt) (*model, error) {
	dir, err := assets.Resolve(e.Model.Path)
	if err != nil {
		return nil, err
	}
	patterns, adapted := trained(e)
	s, err := episodes.Open(dir, episodes.Options{Pool: tensor.NewPool(o.Backend), F32: e.Model.Precision == "f32", Train: patterns})
	if err != nil {
		return nil, err
	}
	m := &model{speaker: s}
	key := rng.New(uint64(e.Run.Seed))
	if adapted {
		l := e.Model.LoRA
		m.lora = nn.LoRA{Rank: l.Rank, Alpha: float32(l.Alpha), Targets: l.Targets, Key: key.With("lora")}
		if m.adapters, err = s.Params.AddLoRA(m.lora); err != nil {
			return nil, errors.Join(fmt.Errorf("model.lora: %w", err), m.close())
		}
	}
	protocol, err := e.Episode.Play()
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.talk = &episodes.Policy{Speaker: s, Protocol: protocol, Limits: e.Episode.Limits(), Turn: e.Episode.TurnTokens, Parallel: e.Episode.Parallel, Sampling: e.Episode.Sampling,
		Silence: e.Episode.Silence, Draws: rollout.Draws{Root: key}, Ask: asker(e, lists)}
	err = m.talk.Learn(m.adapters, e.Optim, needed(e)...)
	if err == nil && hasCritic(e) {
		err = m.talk.Expect(key.With("values"), e.Optim)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// asker asks the question of a number, training's first.
func asker(e *experiment.Experiment, lists [][]prompts.Prompt) func(n int) (episodes.Question, error) {
	files := []string{e.Rollout.Prompts, e.Evaluate.Prompts}
	return func(n int) (episodes.Question, error) {
		at := 0
		for at < len(lists)-1 && n >= len(lists[at]) {
			n -= len(lists[at])
			at++
		}
		p := lists[at][n]
		pictures, err := p.Pictures(filepath.Dir(files[at]))
		if err != nil {
			return episodes.Question{}, err
		}
		q := episodes.Asked(p.Text, pictures...)
		if e.Episode.System != "" {
			q.Messages = append([]vlm.Message{{Role: "system", Content: vlm.Text(e.Episode.System)}}, q.Messages...)
		}
		return q, nil
	}
}

// transcript is what rewards are told of a conversation.
func transcript(e *trainer.Episode) *rewards.Transcript {
	t := &rewards.Transcript{}
	for i, turn := range e.Turns {
		one := rewards.Turn{}
		if i < len(e.Texts) {
			one.Text = e.Texts[i]
		}
		for _, c := range turn.Calls {
			if one.Tool == "" {
				one.Tool = c.Tool
			}
			t.Failed = c.Refused != ""
		}
		if len(turn.Calls) > 0 && one.Tool == "" {
			one.Tool = "unreadable"
		}
		t.Turns = append(t.Turns, one)
	}
	for at, on := range e.Sampled {
		if on {
			t.Tokens = append(t.Tokens, int(e.Tokens[at]))
		}
	}
	for _, s := range e.Shots {
		if s.Turn < 0 {
			if t.Width == 0 {
				t.Width, t.Height = s.Width, s.Height
			}
			continue
		}
		t.Pictures++
		if s.Root >= 0 {
			t.Crops = append(t.Crops, rewards.Crop{Picture: s.Root, Box: boxes.Box(s.Box)})
		}
	}
	return t
}

// shape makes totals of what [episode] says of long answers and of those that were cut off.
func (t *Training) shape(samples []trainer.Sample, totals []float64) {
	for i, s := range samples {
		if e := s.Item.Episode; e != nil {
			totals[i] = t.turn.Episode.Shaped(totals[i], len(e.Response()), e.End == "cut" || e.Over)
		}
	}
}

// spoken is the objective of tokens.
func spoken(t *Training, turn experiment.Turn, anchor trainer.Weights) trainer.Objective {
	kl := turn.Loss.KL
	o := trainer.Spoken{Loss: turn.Loss.Tokens(), Reference: kl.Weight > 0 && kl.Reference != "old", Anchor: anchor}
	if turn.Advantage.Estimator == "gae" {
		o.Critic = &trainer.Critic{Clip: turn.Loss.Value.ClipRange, Aggregate: loss.Aggregate{Mode: "token-mean"}}
	}
	if turn.Loss.Objective == "clip-cov" {
		o.Draw = func(k trainer.Key, token int) float64 {
			return t.root().With("clip-cov").Iteration(k.Iteration).Prompt(uint64(k.Prompt)).Sample(k.Sample).Step(token).Draw().Float64()
		}
	}
	return o
}

// credit spreads what episodes earned over their tokens, where advantages of samples are not all
// there is to it: rewards to come (REINFORCE++), whitening over all tokens.
func (t *Training) credit(samples []trainer.Sample, advantages, totals []float64) error {
	c := t.turn.Advantage.Credit
	if t.turn.Episode == nil || c.How == "spread" && !c.Whiten.On {
		return nil
	}
	rows := advantage.Tokens{Outcome: advantages}
	for _, s := range samples {
		rows.Groups = append(rows.Groups, s.Key.Prompt)
		mask := make([]float64, len(s.Item.Episode.Response()))
		for k, step := range s.Decisions.Step {
			if s.Decisions.Trained[k] {
				mask[step-s.Item.Episode.Prompt] = 1
			}
		}
		rows.Mask = append(rows.Mask, mask)
	}
	if c.How == "gae" {
		if err := t.baselines(&rows, samples, totals); err != nil {
			return err
		}
		rows.Rewards = advantage.AtEnd(totals, rows.Mask, nil, 0)
	}
	of, returns, err := c.Of(rows)
	if err != nil {
		return err
	}
	for i := range samples {
		d := &samples[i].Decisions
		d.Advantage = perDecision(samples[i], of[i])
		if rows.Values != nil {
			d.Value, d.Return = perDecision(samples[i], rows.Values[i]), perDecision(samples[i], returns[i])
		}
		if c.How == "gae" && !math.IsNaN(advantages[i]) {
			advantages[i] = mean(d.Advantage) // what is told of the sample, and whether it teaches anything
		}
	}
	return nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

// perDecision are an answer's numbers at what the model chose.
func perDecision(s trainer.Sample, row []float64) []float64 {
	var out []float64
	for _, step := range s.Decisions.Step {
		out = append(out, row[step-s.Item.Episode.Prompt])
	}
	return out
}

// toolUse is how an iteration's episodes used tools, by name: what a monitor watches as
// "episode.NAME".
func toolUse(samples []trainer.Sample) map[string]float64 {
	sums := map[string]float64{}
	n, calls := 0.0, 0.0
	for _, s := range samples {
		e := s.Item.Episode
		if e == nil {
			continue
		}
		n++
		made, refused := e.ToolCalls()
		calls += float64(made)
		sums["calls"] += float64(made)
		sums["refused_calls"] += float64(refused)
		sums["turns"] += float64(len(e.Turns))
		sums["pictures"] += float64(len(e.Shots))
		sums["tokens"] += float64(len(s.Decisions.Step))
		for name, is := range map[string]bool{"called": made > 0, "answered": e.End == "answered", "over": e.Over, "cut": e.End == "cut"} {
			if is {
				sums[name]++
			} else {
				sums[name] += 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	for name := range sums {
		if name == "refused_calls" {
			sums[name] /= max(1, calls)
		} else {
			sums[name] /= n
		}
	}
	return sums
}

// differ is the share of pairs of a prompt's episodes that say different things.
func differ(samples []trainer.Sample, groups [][]int) float64 {
	different, pairs := 0.0, 0.0
	for _, g := range groups {
		for k, i := range g {
			for _, j := range g[:k] {
				pairs++
				if strings.Join(samples[i].Item.Episode.Texts, "\n") != strings.Join(samples[j].Item.Episode.Texts, "\n") {
					different++
				}
			}
		}
	}
	return different / max(1, pairs)
}

// TranscriptLine is a line of transcripts.jsonl: an episode with every token.
type TranscriptLine struct {
	Iteration int               `json:"iteration"` // 0: an evaluation before the first
	Attempt   int               `json:"attempt,omitempty"`
	HeldOut   bool              `json:"heldout,omitempty"`
	Prompt    int               `json:"prompt"`
	Sample    int               `json:"sample"`
	Text      string            `json:"text"`
	Said      []string          `json:"said"`              // the model, a turn each
	Pieces    []string          `json:"pieces"`            // the same, a token each
	Picture   string            `json:"picture,omitempty"` // the question's with crops, in the run's folder, where it was kept
	Total     *float64          `json:"total"`
	Advantage *float64          `json:"advantage,omitempty"`
	Episode   *tools.Transcript `json:"episode"`
}

// TranscriptsFile has a line an episode.
const TranscriptsFile = "transcripts.jsonl"

// recordEpisodes appends an iteration's episodes.
func (t *Training) recordEpisodes(r *trainer.Report, line *Line) error {
	if t.transcripts == nil {
		return nil
	}
	kept := line.Iteration == 1 || line.HeldOut != nil
	for i, s := range r.Samples {
		e := s.Item.Episode
		l := TranscriptLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample,
			Text: t.train[s.Key.Prompt].Text, Said: e.Texts, Total: number(r.Scores[i]), Advantage: number(r.Advantages[i]), Episode: e.Transcript}
		for at, on := range e.Sampled {
			if on {
				l.Pieces = append(l.Pieces, t.model.speaker.Tokens.Decode(e.Tokens[at:at+1]))
			}
		}
		if kept && i < mostKept {
			var err error
			if l.Picture, err = t.keepShown(s, fmt.Sprintf("images/episode_%06d_%02d.png", line.Iteration, i)); err != nil {
				return err
			}
		}
		if err := t.transcripts.Append(l); err != nil {
			return err
		}
	}
	return nil
}

// keepShown writes what an episode looked at, and returns the file's name; "" where there is no
// picture.
func (t *Training) keepShown(s trainer.Sample, name string) (string, error) {
	m := shown(s, rewards.Item{Transcript: transcript(s.Item.Episode)})
	if m == nil {
		return "", nil
	}
	var png bytes.Buffer
	return name, errors.Join(vision.EncodePNG(&png, m), t.folder.Write(name, png.Bytes()))
}

// mostKept is how many of an iteration's pictures are kept, where any are.
const mostKept = 8

// shown is a sample for people: its picture, or that of the question, with the crops that were
// looked at.
func shown(s trainer.Sample, item rewards.Item) *vision.Image {
	e := s.Item.Episode
	if e == nil || len(e.Album.Pictures) == 0 {
		return item.Image
	}
	m := e.Album.Pictures[0].Image.Clone()
	var marks []vision.Mark
	for _, c := range item.Transcript.Crops {
		if c.Picture == 0 {
			marks = append(marks, vision.Mark{X0: c.Box[0], Y0: c.Box[1], X1: c.Box[2], Y1: c.Box[3]})
		}
	}
	m.Draw(marks)
	if by := float64(max(m.Width, m.Height)) / shownSide; by > 1 {
		small, err := m.Resize(max(1, int(float64(m.Width)/by)), max(1, int(float64(m.Height)/by)), vision.Bicubic)
		if err == nil {
			return small
		}
	}
	return m
}

// shownSide is how many pixels a side a question's picture has on a sheet.
const shownSide = 192
