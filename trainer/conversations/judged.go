package conversations

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Card: answers of a file that somebody judged, for objectives dpo and kto: a row's answers are the samples of its
// group, the better one first, or one that is good or bad. Tokens and pictures are those of a rollout, and of a
// conversation the answer alone is trained, which is what follows the prompt.
//
// Invariant (test): tokens of a row's answers are those of the same conversations as lessons, and begin alike.

// An answer is a judged answer's tokens, with its pictures.
type answer struct {
	sft.Lesson
	sights
	good     bool
	question string // for people
}

// judged are a row's answers. Of rows with another number of them it is an error.
func (t *lessonReader) judged(row, file string, n int) (all []answer, err error) {
	read, err := sft.ReadPreference(row)
	if err != nil {
		return nil, err
	}
	if len(read) != n {
		return nil, fmt.Errorf("the row has %d judged answers, and rollout.group is %d\nhint: group = 1 for rows with a label, 2 for pairs; a file has one kind", len(read), n)
	}
	for _, j := range read {
		a := answer{good: j.Good, question: j.Question()}
		if a.sights, err = t.sights(file, j.Conversation); err != nil {
			return nil, err
		}
		if a.Lesson, err = t.whole(j.Conversation, a.sights); err != nil {
			return nil, err
		}
		untrain(a.Trained, saidBy("assistant", j))
		if a.Count() == 0 {
			return nil, fmt.Errorf("no token of an answer is trained")
		}
		all = append(all, a)
	}
	return all, nil
}

// saidBy is how many messages of the prompt are a party's.
func saidBy(role string, j sft.Judged) (n int) {
	for _, m := range j.Messages[:j.Asked] {
		if m.Role == role {
			n++
		}
	}
	return n
}

// untrain takes out the first n stretches of trained tokens: what the assistant said in the prompt.
func untrain(trained []bool, n int) {
	for i := 0; i < len(trained) && n > 0; i++ {
		if trained[i] && (i+1 == len(trained) || !trained[i+1]) {
			n--
		}
		trained[i] = false
	}
}

// toldAnswer is one of a row's answers as an episode.
func (m *Model) toldAnswer(k trainer.Key) (trainer.Sample, error) {
	row, file, err := m.teacher.row(m.train[k.Prompt])
	if err != nil {
		return trainer.Sample{}, err
	}
	all, err := m.teacher.judged(row, file, m.turn.Rollout.Group)
	if err != nil {
		return trainer.Sample{}, err
	}
	a := all[k.Sample]
	s := m.episode(k, a.Lesson, a.sights)
	EpisodeOf(s).Good = a.good
	return s, nil
}

// preferring is the objective over judged answers.
func (m *Model) preferring(turn experiment.Turn) trainer.Objective {
	o := trainer.Preferring{Loss: turn.Loss.Preference, Shift: &m.shift, Anchor: model.Anchor(turn)}
	if !turn.Kind().Has(loss.AnswerPairs) {
		o.Good = func(s trainer.Sample) bool { return EpisodeOf(s).Good }
		o.Others = m.others
	}
	return o
}

// others are answers to other questions: each sample's prompt with the answer of the one before, the first with the
// last's (TRL). An answer that shows pictures belongs to its own question, and is left out.
func (m *Model) others(samples []trainer.Sample) (all []trainer.Sample) {
	for i, s := range samples {
		asked, said := EpisodeOf(s), EpisodeOf(samples[(i+len(samples)-1)%len(samples)])
		tail := said.Tokens[said.Prompt:]
		if asked == said || slices.Contains(tail, m.Speaker.Marks.Picture) || slices.Contains(tail, m.Speaker.Marks.Clip) {
			continue
		}
		l := sft.Lesson{IDs: slices.Concat(asked.Tokens[:asked.Prompt], tail), Trained: make([]bool, asked.Prompt+len(tail))}
		copy(l.Trained[asked.Prompt:], said.Sampled[said.Prompt:])
		at := sights{films: asked.films}
		for _, p := range asked.Album.Pictures {
			at.pictures = append(at.pictures, p.Image)
		}
		all = append(all, m.episode(s.Key, l, at))
	}
	return all
}

// shiftName is what a checkpoint calls the mean that bco measures from, with how many batches are in it.
const shiftName = "preference.shift"

// shifts reports whether a stage keeps that mean.
func (m *Model) shifts() bool {
	return slices.ContainsFunc(m.opened.Turns(), func(e *experiment.Experiment) bool {
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
