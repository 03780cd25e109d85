package pretrain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

const smallDetector = `
makes = "detector"
name = "small"
data = { scenes = 64, scattered = 1, damaged = 0 }
model = { patch = 4, width = 8, depths = [1, 1, 1, 1], hidden = 32, heads = 2, forward = 32, decoder_layers = 1, queries = 5 }
train = { steps = 6, batch = 4, save_every = 2 }
judge = { pictures = 4, every = 100 }
`

func detector(t *testing.T, sets ...string) *Detector {
	t.Helper()
	r, err := Parse("detector.toml", []byte(smallDetector), sets)
	if err != nil {
		t.Fatal(err)
	}
	return r.(*Detector)
}

// TestDetectorStopped: stopped and gone on with, a detector is the bytes of one that never was.
func TestDetectorStopped(t *testing.T) {
	be := backend(t)
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if err := Run(detector(t), whole, Hooks{Backend: be, Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	stops := 0
	for ; ; stops++ {
		err := Run(detector(t), parts, Hooks{Backend: be, Log: func(string) {}, Context: &patience{context.Background(), 4}})
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || stops > 10 {
			t.Fatal(err)
		}
	}
	if stops == 0 {
		t.Error("never stopped")
	}
	for _, name := range []string{detectorFile, "config.json", "preprocessor_config.json"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(parts, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes (%v)", name, err)
		}
	}
}

// made is an answer of numbers that are drawn, and things of two pictures.
func made(k rng.Key, queries, classes, side int) (*maskAnswer, [][]target) {
	a := &maskAnswer{classes: make([]float32, 2*queries*classes), masks: make([]float32, 2*queries*side*side), queries: queries}
	k.With("classes").Normal(a.classes, 0)
	k.With("masks").Normal(a.masks, 0)
	var things [][]target
	for i := range 2 {
		var list []target
		for n := range 1 + 2*i {
			share := make([]float32, 4*side*side)
			k.Sample(i).With(rng.Purpose(rune('a'+n))).Uniform(share, 0)
			list = append(list, newTarget(n%(classes-1), share, 2*side, side))
		}
		things = append(things, list)
	}
	return a, things
}

// TestSlopesOfMasks against differences, and the order of things does not matter.
func TestSlopesOfMasks(t *testing.T) {
	m := Matching{Class: 2, Mask: 5, Dice: 3, NoObject: 0.1}
	a, things := made(rng.New(5), 4, 3, 3)
	total := func() float64 {
		l := m.judge(a, things)
		return m.Class*l.class + m.Mask*l.mask + m.Dice*l.dice
	}
	total()
	dClasses, dMasks := slices.Clone(a.dClasses), slices.Clone(a.dMasks)
	const h = 1e-3
	for name, of := range map[string][2][]float32{"logit of a class": {a.classes, dClasses}, "logit of a mask": {a.masks, dMasks}} {
		for i, was := range of[0] {
			of[0][i] = was + h
			up := total()
			of[0][i] = was - h
			down := total()
			of[0][i] = was
			if want := (up - down) / (2 * h); math.Abs(want-float64(of[1][i])) > 2e-4 {
				t.Fatalf("%s %d: %v, by differences %v", name, i, of[1][i], want)
			}
		}
	}
	before := total()
	slices.Reverse(things[1])
	if after := total(); math.Abs(after-before) > 1e-12 || !slices.Equal(a.dMasks, dMasks) {
		t.Errorf("%v, and %v in another order of things", before, after)
	}
	a, things = made(rng.New(6), 4, 3, 3) // query 2 has all of the only thing, and the others have nothing
	things[0], things[1] = things[0][:1], nil
	for at := range things[0][0].share {
		on := float32(at % 2)
		things[0][0].share[at] = on
		a.masks[at*4+2] = 40*on - 20
	}
	things[0][0].area = 4
	for i := range a.classes {
		a.classes[i] = map[bool]float32{true: 20, false: -20}[i%3 == 2]
	}
	copy(a.classes[2*3:], []float32{20, -20, -20})
	if l := m.judge(a, things); l.class > 1e-6 || l.mask > 1e-6 || l.dice > 1e-6 {
		t.Errorf("the truth costs %+v", l)
	}
}

// TestDetectorLearns: masks come to overlap things, in pictures that differ each time.
func TestDetectorLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	var overlap []float64 // the loss of 50 steps, and of the next 50
	if err := Run(detector(t, "train.steps=100", "train.batch=8", "train.lr=0.004", "train.warmup=5"), filepath.Join(t.TempDir(), "m"), Hooks{Backend: backend(t), Log: func(s string) {
		var v float64
		if _, after, ok := strings.Cut(s, "overlap "); ok {
			if _, err := fmt.Sscan(after, &v); err != nil {
				t.Error(err)
			}
			overlap = append(overlap, v)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	t.Log(overlap)
	if len(overlap) != 2 || overlap[1] > 0.7*overlap[0] {
		t.Errorf("the loss went from %v", overlap)
	}
}

func TestDetectorMistakes(t *testing.T) {
	_, err := Parse("bad.toml", []byte("makes = \"detector\"\nname = \"x\"\n[model]\npatch = 3\nhidden = 40\nwidth = 12\ndepths = [1, 1]\n[loss]\nno_object = 0\n[data]\none = 0\nrelation = 0\ncount = 0\nword = 0\n"), nil)
	for _, want := range []string{"patches of 3", "40 is not a multiple of 32", "12 is not a multiple of 8", "there are 2 stages", "no_object", "all families have weight 0", "bad.toml:4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := Parse("bad.toml", []byte("makes = \"detector\"\nname = \"x\"\nmodel.heads = 3\n"), nil); err == nil || !strings.Contains(err.Error(), "3 does not divide hidden 64") {
		t.Errorf("heads that do not divide the width: %v", err)
	}
}
