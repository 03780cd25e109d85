package conversations

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Roll is model.Model's: in a stage that learns from lessons it reads them, and nothing is drawn.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	if !m.turn.Kind().Written() {
		return m.Policy.Roll(w, keys)
	}
	samples := make([]trainer.Sample, len(keys))
	for i, k := range keys {
		tell := m.told
		if m.turn.Kind().Learns == loss.JudgedAnswers {
			tell = m.toldAnswer
		}
		s, err := tell(k)
		if err != nil {
			return nil, fmt.Errorf("%s, %q: %w", m.turn.Rollout.Lessons, m.train[k.Prompt].Text, err)
		}
		samples[i] = s
	}
	return samples, nil
}

// told is how an episode ends that was not drawn.
const told tools.End = "told"

// told is a lesson as an episode: what the assistant says counts as drawn.
func (m *Model) told(k trainer.Key) (trainer.Sample, error) {
	l, at, err := m.teacher.lesson(m.train[k.Prompt], m.turn.Rollout.LessonsMask)
	if err != nil {
		return trainer.Sample{Key: k}, err
	}
	return m.episode(k, l, at), nil
}

// episode is a lesson with what it shows as an episode.
func (m *Model) episode(k trainer.Key, l sft.Lesson, at sights) trainer.Sample {
	s := trainer.Sample{Key: k}
	l.Trained[0] = false // no token stands before it
	t := &tools.Transcript{Protocol: m.opened.Episode.Protocol, Tokens: l.IDs, Sampled: l.Trained,
		LogProb: make([]float64, len(l.IDs)), ModelLogProb: make([]float64, len(l.IDs)), Reward: make([]float64, len(l.IDs)), End: told}
	e := &Episode{Transcript: t, Album: tools.NewAlbum(at.pictures...), films: at.films}
	for from := 0; from < len(l.IDs); {
		to := from
		for to < len(l.IDs) && l.Trained[to] {
			to++
		}
		if to > from {
			if len(t.Turns) == 0 {
				t.Prompt = from
			}
			t.Turns = append(t.Turns, tools.Turn{From: from, To: to, Observed: next(l, to)})
			e.Texts = append(e.Texts, m.Speaker.Tokens.DecodePlain(l.IDs[from:to]))
		}
		from = max(to, from+1)
	}
	d := &s.Decisions
	for at, on := range l.Trained {
		if on {
			d.Step, d.LogProb, d.Trained = append(d.Step, at), append(d.LogProb, 0), append(d.Trained, true)
		}
	}
	s.Item.Episode = e
	return s
}

// next is where the assistant speaks again behind a place, or the end.
func next(l sft.Lesson, at int) int {
	for at < len(l.IDs) && !l.Trained[at] {
		at++
	}
	return at
}
