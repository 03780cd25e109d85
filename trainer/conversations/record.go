package conversations

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// The ledger's numbers of conversations.

// Describe implements model.Model.
func (m *Model) Describe(line *ledger.Line, r *trainer.Report) {
	line.Diversity = differ(r.Samples, trainer.Groups(r.Samples))
	if line.Episodes = toolUse(r.Samples); line.Episodes != nil && !m.settings.Supervised() {
		worths(line.Episodes, r.Samples, r.Scores)
	}
	if m.Engine != nil && line.Episodes != nil {
		line.Episodes["engine_gap"] = m.Engine.Gap
	}
	if n := m.opened.Episode.Noisy; n != nil {
		line.Noisy = noisy(r.Samples, n.Old == "rolled")
	}
	if m.settings.Comparison().GreedyAnswer && !math.IsNaN(m.likely.Mean) {
		line.Episodes["greedy"] = m.likely.Mean
	}
}

// noisy is the line of an iteration; nil where nothing was distorted.
func noisy(samples []trainer.Sample, expected bool) *ledger.NoisyLine {
	l := ledger.NoisyLine{Expected: expected}
	var ratios []float64
	for _, s := range samples {
		e := rollout.EpisodeOf(s)
		if e.Noise == nil {
			continue
		}
		l.Samples, l.Step = l.Samples+1, e.Noise.Step
		for k, at := range s.Decisions.Step {
			ratios = append(ratios, portable.Exp(e.Noise.LogProb[k]-e.ModelLogProb[at]))
		}
	}
	if l.Samples == 0 {
		return nil
	}
	u := ledger.UpdateOf(0, 0, 0, map[string][]float64{"ratio": ratios})
	l.RatioMean, l.RatioMost, l.Mismatch = u.RatioMean, u.RatioMost, u.Mismatch
	return &l
}

// How tools are used, and how much a prompt's episodes differ: the ledger's "episodes" and "diversity".

// toolUse is how an iteration's episodes used tools, by name: a monitor watches them as "episode.NAME".
func toolUse(samples []trainer.Sample) map[string]float64 {
	sums := map[string]float64{}
	n, calls, entropy, drawn := 0.0, 0.0, 0.0, 0.0
	for _, s := range samples {
		e := rollout.EpisodeOf(s)
		n++
		made, refused := e.ToolCalls()
		calls += float64(made)
		sums["calls"] += float64(made)
		sums["refused_calls"] += float64(refused)
		sums["turns"] += float64(len(e.Turns))
		sums["pictures"] += float64(len(e.Shots))
		sums["tokens"] += float64(len(s.Decisions.Step))
		if e.End != rollout.Demonstrated {
			entropy, drawn = entropy+e.Entropy, drawn+float64(len(s.Decisions.Step)-e.Given)
		}
		if e.Lost != nil {
			sums["lost"]++
		}
		if e.Given > 0 {
			sums["given"] += float64(e.Given)
		}
		if e.Defused > 0 { // special tokens that the model wrote into its observations
			sums["defused"] += float64(e.Defused)
		}
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
	if drawn > 0 {
		sums["entropy"] = entropy / drawn // a token
	}
	return sums
}

// worths adds the mean total of episodes that called a tool, and of those that did not: the worth of looking closer.
func worths(use map[string]float64, samples []trainer.Sample, totals []float64) {
	sums, n := map[string]float64{}, map[string]float64{}
	for i, s := range samples {
		if math.IsNaN(totals[i]) {
			continue
		}
		name := "score_direct"
		if made, _ := rollout.EpisodeOf(s).ToolCalls(); made > 0 {
			name = "score_called"
		}
		sums[name], n[name] = sums[name]+totals[i], n[name]+1
	}
	for name, sum := range sums {
		use[name] = sum / n[name]
	}
}

// differ is the share of pairs of a prompt's episodes that say different things.
func differ(samples []trainer.Sample, groups [][]int) float64 {
	different, pairs := 0.0, 0.0
	for _, g := range groups {
		for k, i := range g {
			for _, j := range g[:k] {
				pairs++
				if strings.Join(rollout.EpisodeOf(samples[i]).Texts, "\n") != strings.Join(rollout.EpisodeOf(samples[j]).Texts, "\n") {
					different++
				}
			}
		}
	}
	return different / max(1, pairs)
}

// Kept files of episodes: transcripts.jsonl, and pictures of some with the crops that were looked at.

// Files is model.Model's: a line an episode.
func (m *Model) Files() []string { return []string{ledger.TranscriptsFile} }

// Record appends an iteration's episodes.
func (m *Model) Record(to model.Outputs, line *ledger.Line, r *trainer.Report) (map[int]string, error) {
	kept := line.Iteration == 1 || line.HeldOut != nil
	for i, s := range r.Samples {
		e := rollout.EpisodeOf(s)
		l := ledger.TranscriptLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample,
			Text: m.train[s.Key.Prompt].Text, Replies: e.Texts, Total: ledger.Number(r.Scores[i]), Advantage: ledger.Number(r.Advantages[i]), Given: e.Given, Episode: e.Transcript}
		for at, on := range e.Sampled {
			if on {
				l.Pieces = append(l.Pieces, m.VLM.Tokens.Decode(e.Tokens[at:at+1]))
			}
		}
		if kept && i < maxEpisodes {
			var err error
			if l.Picture, err = keepShown(to.Folder, e, fmt.Sprintf("images/episode_%06d_%02d.png", line.Iteration, i)); err != nil {
				return nil, err
			}
			if l.Saw, err = m.keepSaw(to.Folder, e, fmt.Sprintf("images/episode_%06d_%02d", line.Iteration, i)); err != nil {
				return nil, err
			}
		}
		if err := to.Lines[ledger.TranscriptsFile].Append(l); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// keepShown writes an episode's pictures, and returns the file's name; "" where there is no picture.
func keepShown(to *folder.Folder, e *rollout.Episode, name string) (string, error) {
	m := shown(e)
	if m == nil {
		return "", nil
	}
	var png bytes.Buffer
	return name, errors.Join(vision.EncodePNG(&png, m), to.Write(name, png.Bytes()))
}

// keepSaw writes an episode's pictures as the model saw them, after the processor made them smaller or larger, and
// returns the files' names: those of the question first, then those of tools.
func (m *Model) keepSaw(to *folder.Folder, e *rollout.Episode, stem string) (names []string, err error) {
	for i, picture := range e.Album.Pictures[:min(len(e.Album.Pictures), maxPictures)] {
		if picture.Image == nil { // its size alone is known
			break
		}
		seen, err := m.VLM.Processor.Resize(picture.Image.Raster())
		if err != nil {
			return nil, fmt.Errorf("picture %d of an episode, to be kept: %w", i+1, err)
		}
		var png bytes.Buffer
		name := fmt.Sprintf("%s_saw_%02d.png", stem, i)
		if err := errors.Join(vision.EncodePNG(&png, seen), to.Write(name, png.Bytes())); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// maxPictures is how many pictures of an episode are kept as the model saw them.
const maxPictures = 12

// maxEpisodes is how many of an iteration's pictures are kept, where any are.
const maxEpisodes = 8

// shown is an episode for people: the question's picture, with the crops that were looked at; nil where
// it has no picture.
func shown(e *rollout.Episode) *vision.Image {
	if len(e.Album.Pictures) == 0 {
		return nil
	}
	m := e.Album.Pictures[0].Image.Clone()
	var marks []vision.Mark
	for _, c := range rollout.RewardTranscript(e).Crops {
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
