package conversations

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/lessons"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Roll is model.Model's: in a stage that learns from lessons it reads them, and nothing is drawn.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	if !m.settings.Kind().Written() {
		return m.Policy.Roll(w, keys)
	}
	samples := make([]trainer.Sample, len(keys))
	for i, k := range keys {
		tell := m.lessonEpisode
		if m.settings.Kind().Learns == loss.JudgedAnswers {
			tell = m.answerEpisode
		}
		s, err := tell(k)
		if err != nil {
			return nil, fmt.Errorf("%s, %q: %w", m.settings.Rollout.Lessons, m.train[k.Prompt].Text, err)
		}
		samples[i] = s
	}
	return samples, nil
}

// lessonEpisode is a lesson as an episode: the assistant's tokens count as drawn.
func (m *Model) lessonEpisode(k trainer.Key) (trainer.Sample, error) {
	l, at, err := m.lessons.Lesson(m.train[k.Prompt], m.settings.Rollout.LessonsMask)
	if err != nil {
		return trainer.Sample{Key: k}, err
	}
	return m.episode(k, l, at), nil
}

// episode is a lesson with its media as an episode.
func (m *Model) episode(k trainer.Key, l sft.Lesson, at lessons.Media) trainer.Sample {
	s := trainer.Sample{Key: k}
	l.Trained[0] = false // the first token has no context
	t := &tools.Transcript{Protocol: m.opened.Episode.Protocol, Tokens: l.IDs, Sampled: l.Trained,
		LogProb: make([]float64, len(l.IDs)), ModelLogProb: make([]float64, len(l.IDs)), Reward: make([]float64, len(l.IDs)), End: rollout.Demonstrated}
	e := &rollout.Episode{Transcript: t, Album: tools.NewAlbum(at.Pictures...), Videos: at.Videos}
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
			e.Texts = append(e.Texts, m.VLM.Tokens.DecodePlain(l.IDs[from:to]))
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

// next is the beginning of the next assistant turn behind a place, or the end.
func next(l sft.Lesson, at int) int {
	for at < len(l.IDs) && !l.Trained[at] {
		at++
	}
	return at
}

// answerEpisode is one of a row's answers as an episode.
func (m *Model) answerEpisode(k trainer.Key) (trainer.Sample, error) {
	row, file, err := m.lessons.Row(m.train[k.Prompt])
	if err != nil {
		return trainer.Sample{}, err
	}
	all, err := m.lessons.Judged(row, file, m.settings.Rollout.Group)
	if err != nil {
		return trainer.Sample{}, err
	}
	a := all[k.Sample]
	s := m.episode(k, a.Lesson, a.Media)
	rollout.EpisodeOf(s).Good = a.Good
	return s, nil
}

// preferring is the objective over judged answers.
func (m *Model) preferring(settings experiment.Settings) trainer.Objective {
	o := trainer.Preference{Loss: settings.Loss.Preference, Shift: &m.shift, Anchor: model.Anchor(settings)}
	if !settings.Kind().Has(loss.AnswerPairs) {
		o.Good = func(s trainer.Sample) bool { return rollout.EpisodeOf(s).Good }
		o.Others = m.others
	}
	return o
}

// others are answers to other questions: each sample's prompt with the answer of the one before, the first with the
// last's (TRL). An answer that shows pictures belongs to its own question, and is left out.
func (m *Model) others(samples []trainer.Sample) (all []trainer.Sample) {
	for i, s := range samples {
		asked, said := rollout.EpisodeOf(s), rollout.EpisodeOf(samples[(i+len(samples)-1)%len(samples)])
		tail := said.Tokens[said.Prompt:]
		if asked == said || slices.Contains(tail, m.VLM.Marks.Picture) || slices.Contains(tail, m.VLM.Marks.Clip) {
			continue
		}
		l := sft.Lesson{IDs: slices.Concat(asked.Tokens[:asked.Prompt], tail), Trained: make([]bool, asked.Prompt+len(tail))}
		copy(l.Trained[asked.Prompt:], said.Sampled[said.Prompt:])
		at := lessons.Media{Videos: asked.Videos}
		for _, p := range asked.Album.Pictures {
			at.Pictures = append(at.Pictures, p.Image)
		}
		all = append(all, m.episode(s.Key, l, at))
	}
	return all
}

// shiftName is a checkpoint's name for the mean that bco measures from, with the number of batches in it.
const shiftName = "preference.shift"

// shifts reports whether a stage keeps that mean.
func (m *Model) shifts() bool {
	return slices.ContainsFunc(m.opened.EachStage(), func(e *experiment.Experiment) bool {
		return e.Kind().Has(loss.AnswerPairs) && e.Loss.Preference.Shifts()
	})
}

func (m *Model) shiftTensor() safetensors.Tensor {
	data := binary.LittleEndian.AppendUint64(nil, math.Float64bits(m.shift.Mean))
	data = binary.LittleEndian.AppendUint64(data, math.Float64bits(m.shift.Batches))
	return safetensors.Tensor{Name: shiftName, DType: safetensors.F64, Shape: []int{2}, Data: data}
}

func (m *Model) loadShift(f *safetensors.File) error {
	t, err := f.Tensor(shiftName)
	if err == nil && len(t.Data) != 16 {
		err = fmt.Errorf("%s: %s has %d bytes, not 16", f.Path, shiftName, len(t.Data))
	}
	if err != nil {
		return err
	}
	m.shift.Mean = math.Float64frombits(binary.LittleEndian.Uint64(t.Data))
	m.shift.Batches = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8:]))
	return nil
}

// Card: answers that somebody wrote, learned from in the updates of rollouts (trainer.Imitation, CHORD). They are
// conversations of rollout.lessons, as the objective sft reads them; each is read once in an epoch, by iterations of
// the run, and the share follows those of the stage. Every update of an iteration sees the same. An iteration whose
// samples teach nothing learns from them alone.

// imitating joins an objective with written answers, where the iteration has some.
func (m *Model) imitating(settings experiment.Settings, own trainer.Objective) trainer.Objective {
	o := settings.Loss.Imitate
	if !o.On() {
		return own
	}
	return trainer.Imitation{
		Own:     own,
		Written: trainer.SFT{Aggregate: settings.Loss.Aggregate, Undecided: o.Tokens == "undecided"},
		Share:   o.Share(settings.Iteration),
		Lessons: func() ([]trainer.Sample, error) { return m.written(settings) },
	}
}

// written are the conversations of an iteration.
func (m *Model) written(settings experiment.Settings) (samples []trainer.Sample, err error) {
	all := prompts.LessonsOf(m.train, settings.Rollout.Lessons)
	iteration := settings.First + settings.Iteration
	for i, n := range prompts.Pick(m.Draws.Root.With("imitated"), iteration, settings.Loss.Imitate.Rows, len(all)) {
		k := trainer.Key{Iteration: iteration, Prompt: all[n], Sample: i}
		s, err := m.lessonEpisode(k)
		if err != nil {
			return nil, fmt.Errorf("%s, %q: %w", settings.Rollout.Lessons, m.train[k.Prompt].Text, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}
