package run

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestKeptEpisode: an episode of the buffer comes back from a checkpoint with every number of its tokens, those that an
// objective alone asks for included.
func TestKeptEpisode(t *testing.T) {
	full := trainer.Decisions{Step: []int{3, 7}, Trained: []bool{true, false}, LogProb: []float64{-1, -2}, Advantage: []float64{0.5, -0.5},
		Masked: []float64{-3, -4}, Value: []float64{0.1, 0.2}, Return: []float64{1, 2}}
	masked := full
	masked.Advantage, masked.Value, masked.Return = nil, nil, nil
	plain := masked
	plain.Masked = nil
	for name, want := range map[string]trainer.Decisions{"all": full, "masked": masked, "plain": plain} {
		key := trainer.Key{Iteration: 2, Prompt: 5, Sample: 1}
		kept, tensors, err := keepEpisode("kept.0.0", trainer.Sample{Key: key, Decisions: want}, mute{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := json.Marshal(sampleState{Sample: 1, Steps: want.Step, Trained: want.Trained, Episode: kept})
		if err != nil {
			t.Fatal(err)
		}
		var s sampleState
		if err := json.Unmarshal(state, &s); err != nil {
			t.Fatal(err)
		}
		data, err := safetensors.Bytes(tensors, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Read("checkpoint", data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.episode("kept.0.0", key, f, mute{}); err != nil || !reflect.DeepEqual(got.Decisions, want) {
			t.Errorf("%s: %+v came back, %v", name, got.Decisions, err)
		}
	}
}

// mute is a model whose episodes say nothing.
type mute struct{ model.Speaking }

func (mute) Say(trainer.Sample) (model.Said, error) {
	return model.Said{Text: json.RawMessage("{}")}, nil
}
func (mute) Hear([]trainer.Sample, []model.Said) error { return nil }
