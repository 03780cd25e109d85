package fleet

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
)

// painted is a sample of two decisions, whose second begins where the first one ended.
func painted(sample int) trainer.Sample {
	image := vision.New(3, 2)
	for i := range image.Pix {
		image.Pix[i] = uint8(17*i + sample)
	}
	start, middle, end := []float64{1, -0.5}, []float64{float64(float32(0.1)), math.Copysign(0, -1)}, []float64{3e-40, 2}
	return trainer.Sample{Key: trainer.Key{Iteration: 1, Prompt: 7, Sample: sample},
		Item: trainer.Item{Final: end, Size: [2]int{3, 2}, Image: image},
		Decisions: trainer.Decisions{Step: []int{0, 2}, Time: []float64{1000, 1.0 / 3}, State: [][]float64{start, middle}, Action: [][]float64{middle, end},
			Mean: [][]float64{{0.1, 1e300}, {0.2, float64(sample)}}, LogProb: []float64{-1.5, math.Pi}, Trained: []bool{true, false}}}
}

// TestPack: unpacked samples have the bits of the packed ones, equal lists travel once, and equal samples have equal
// bytes.
func TestPack(t *testing.T) {
	samples := []trainer.Sample{painted(0), painted(1), {Key: trainer.Key{Prompt: 8}, Item: trainer.Item{Final: []float64{1}, Frames: 5}}}
	keys := []trainer.Key{samples[0].Key, samples[1].Key, samples[2].Key}
	data, err := Pack(Result{Samples: samples, Passes: &ledger.Passes{Rollout: 12}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unpack(data, keys, nil)
	if err != nil || got.Passes.Rollout != 12 || got.Outputs != nil {
		t.Fatal(err, got)
	}
	back := got.Samples
	if !reflect.DeepEqual(back, samples) || !math.Signbit(back[0].Decisions.State[1][1]) {
		t.Errorf("%+v\ncame back as\n%+v", samples, back)
	}
	again, err := Pack(got, nil)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("the same samples have other bytes: %v", err)
	}
	one, err := Pack(Result{Samples: samples[:1]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := Pack(Result{Samples: []trainer.Sample{samples[0], samples[0]}}, nil); len(two) > len(one)+400 {
		t.Errorf("a sample takes %d bytes, and twice the same %d", len(one), len(two))
	}
	got.Outputs = [][][]float64{{{1, 2}, {3, 1e-300}}, nil, nil}
	data, err = Pack(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	known, err := Unpack(data, keys, nil)
	if err != nil || !reflect.DeepEqual(known.Outputs[0], got.Outputs[0]) || known.Samples[0].Decisions.Mean != nil || known.Outputs[1] != nil ||
		!reflect.DeepEqual(known.Samples[1], samples[1]) {
		t.Errorf("outputs came back as %+v: %v", known, err)
	}
	talk := painted(0)
	talk.Decisions.Value = []float64{1, 2}
	if _, err := Pack(Result{Samples: []trainer.Sample{talk}}, nil); err == nil || !strings.Contains(err.Error(), "do not travel") {
		t.Errorf("values travel: %v", err)
	}
}

// TestFields: the author of a new field of a sample decides whether it travels. Values made from the last state, of
// the prompt, or that follow from the key (Control), do not; fields that pictures lack are refused.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		of   any
		want string
	}{
		{trainer.Sample{}, "Key Decisions Item Reused Control"},
		{trainer.Item{}, "Final Size Frames Image Clip Sources Episode"},
		{trainer.Decisions{}, "Step State Time Action Mean LogProb Trained Advantage Masked Value Return"},
	} {
		var names []string
		for f := range reflect.TypeOf(c.of).Fields() {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%T has the fields %s; pack.go knows %s", c.of, got, c.want)
		}
	}
}

// TestUnpackRefuses: results that do not fit their job are refused with the reason.
func TestUnpackRefuses(t *testing.T) {
	keys := []trainer.Key{painted(0).Key}
	for says, spoil := range map[string]func(s *trainer.Sample) []trainer.Key{
		"was asked for": func(s *trainer.Sample) []trainer.Key { s.Key.Sample = 5; return keys },
		"2 were asked":  func(*trainer.Sample) []trainer.Key { return append(keys, keys...) },
		"infinite":      func(s *trainer.Sample) []trainer.Key { s.Item.Final[1] = math.Inf(1); return keys },
		"a list has 1": func(s *trainer.Sample) []trainer.Key {
			s.Decisions.State[0] = s.Decisions.State[0][:1]
			return keys
		},
		"not 4 x 2": func(s *trainer.Sample) []trainer.Key { s.Item.Size[0] = 4; return keys },
		"fit each other": func(s *trainer.Sample) []trainer.Key {
			s.Decisions.Trained = s.Decisions.Trained[:1]
			return keys
		},
	} {
		s := painted(0)
		s.Item.Final = append([]float64{}, s.Item.Final...)
		asked := spoil(&s)
		data, err := Pack(Result{Samples: []trainer.Sample{s}}, nil)
		if err != nil {
			t.Fatal(says, err)
		}
		if _, err := Unpack(data, asked, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q in it", err, says)
		}
	}
}

// FuzzUnpack: strangers' bytes are refused, or are samples of the keys.
func FuzzUnpack(f *testing.F) {
	data, err := Pack(Result{Samples: []trainer.Sample{painted(0)}, Passes: &ledger.Passes{Rollout: 1}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Unpack(data, []trainer.Key{painted(0).Key}, nil)
		if err == nil && (len(r.Samples) != 1 || r.Samples[0].Key != painted(0).Key) {
			t.Errorf("%+v", r)
		}
	})
}
