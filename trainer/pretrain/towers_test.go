package pretrain

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

const smallTowers = `
makes = "clip"
name = "small"
data.scenes = 64
model = { text_width = 32, text_layers = 1, vision_width = 32, vision_layers = 1, out = 16, patch = 16 }
train = { steps = 6, batch = 8, save_every = 2 }
judge = { pictures = 16, every = 100 }
`

func towers(t *testing.T, sets ...string) *Towers {
	t.Helper()
	r, err := Parse("towers.toml", []byte(smallTowers), sets)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*Towers)
}

// TestTowersStopped: stopped and gone on with, towers are the bytes of those that never were.
func TestTowersStopped(t *testing.T) {
	be := backend(t)
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if err := Run(towers(t), whole, Hooks{Backend: be, Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	stops := 0
	for ; ; stops++ {
		err := Run(towers(t), parts, Hooks{Backend: be, Log: func(string) {}, Context: &patience{context.Background(), 2}})
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || stops > 10 {
			t.Fatal(err)
		}
	}
	if stops != 2 {
		t.Errorf("stopped %d times, not twice", stops)
	}
	for _, name := range []string{"model.safetensors", HeadFile, "config.json", "vocab.json"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(parts, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes (%v)", name, err)
		}
	}
}

// TestTowersLearn: both losses fall, and the towers read from the folder are better than chance.
func TestTowersLearn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := filepath.Join(t.TempDir(), "m")
	be := backend(t)
	r := towers(t, "data.scenes=256", "train.steps=60", "train.batch=24", "train.lr=0.004", "train.ema=0.9", "train.warmup=10", "train.quality=2", "judge.pictures=64")
	if err := Run(r, dir, Hooks{Backend: be, Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	v, err := JudgeTowers(tensor.NewPool(be), dir, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(v)
	if v.Retrieved < 5/float64(v.Captions) || v.Ranked < 0.58 {
		t.Errorf("learnt too little: %s", v)
	}
}

// TestSlopesOfContrast against differences.
func TestSlopesOfContrast(t *testing.T) {
	r := rng.New(3).With("logits").Draw()
	logits := make([][]float64, 3)
	for i := range logits {
		for range 5 {
			logits[i] = append(logits[i], 4*r.Float64()-2)
		}
	}
	_, slopes := crossEntropies(logits)
	const h = 1e-5
	for i := range logits {
		for j := range logits[i] {
			was := logits[i][j]
			logits[i][j] = was + h
			up, _ := crossEntropies(logits)
			logits[i][j] = was - h
			down, _ := crossEntropies(logits)
			logits[i][j] = was
			if want := (up - down) / (2 * h); math.Abs(want-slopes[i][j]) > 1e-9 {
				t.Errorf("logit %d, %d: %v, by differences %v", i, j, slopes[i][j], want)
			}
		}
	}
	for _, d := range []float64{-30, -1, 0, 0.5, 40} {
		_, slope := ranked(d)
		up, _ := ranked(d + h)
		down, _ := ranked(d - h)
		if want := (up - down) / (2 * h); math.Abs(want-slope) > 1e-8 {
			t.Errorf("ranked(%v): slope %v, by differences %v", d, slope, want)
		}
	}
}

func TestTowerMistakes(t *testing.T) {
	_, err := Parse("bad.toml", []byte("makes = \"clip\"\nname = \"x\"\n[model]\npatch = 7\nvision_width = 40\n[train]\nmicro = 2\n"), nil)
	for _, want := range []string{"patches of 7", "40 is not a multiple of head_width 32", "micro", "bad.toml:4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := Parse("bad.toml", []byte("makes = \"clop\"\nname = \"x\"\n"), nil); err == nil || !strings.Contains(err.Error(), `"clip"`) {
		t.Errorf("a recipe of something else: %v", err)
	}
}

// BenchmarkBatch is drawing and damaging the pictures of an update.
func BenchmarkBatch(b *testing.B) {
	r := DefaultTowers()
	d := dataset{Data: r.Data, key: rng.New(1), mix: r.Data.Mix()}
	seen := order{key: rng.New(2), n: r.Data.Scenes}
	step := 0
	for b.Loop() {
		step++
		r.batch(d, &seen, step)
	}
}
