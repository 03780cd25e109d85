package fleet

import (
	"math"
	"reflect"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
)

// TestPoints: points, lists and sums come back as they were, and other bytes are refused, or fit the question.
func TestPoints(t *testing.T) {
	points := []trainer.Point{{Key: trainer.Key{Iteration: 3, Prompt: 1, Sample: 2}, State: []float64{1, 0.1, math.Copysign(0, -1)}, Time: 0.3}, {State: []float64{4, 5, math.Pi}, Time: 1}}
	data, err := PackPoints(points, nil)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := UnpackPoints(data, nil); err != nil || !reflect.DeepEqual(back, points) {
		t.Errorf("%v, %v", back, err)
	}
	lists := [][]float64{{1, 2, 0.1}, {1, 2, 0.1}, {}}
	listed, err := PackLists(lists)
	if err != nil {
		t.Fatal(err)
	}
	back, err := UnpackLists(listed, []int{3, 3, 0})
	if err != nil || !reflect.DeepEqual(back[:2], lists[:2]) || &back[0][0] == &back[1][0] {
		t.Errorf("%v, %v", back, err)
	}
	sums := [][]float32{{1, float32(math.Copysign(0, -1))}, nil, {float32(math.NaN())}}
	digests := []Hash{digestOf(lists), digestOf(lists[:2])}
	summed, err := PackSums(sums, digests)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := UnpackSums(summed, []int{2, 5, 1}); err != nil || back[1] != nil || math.Float32bits(back[0][1]) != 1<<31 || back[2][0] == back[2][0] {
		t.Errorf("%v, %v", back, err)
	}
	if back, err := UnpackDigests(summed, 2); err != nil || !reflect.DeepEqual(back, digests) || back[0] == back[1] {
		t.Errorf("%v, %v", back, err)
	}
	for what, err := range map[string]error{
		"lists of another length":         failure(UnpackLists(listed, []int{3, 2, 0})),
		"fewer lists":                     failure(UnpackLists(listed, []int{3, 3})),
		"no lists":                        failure(UnpackLists(data, []int{3, 3, 0})),
		"a parameter of another length":   failure(UnpackSums(summed, []int{2, 5, 2})),
		"a parameter that is not trained": failure(UnpackSums(summed, []int{2, 5})),
		"fewer digests":                   failure(UnpackDigests(summed, 1)),
		"no digests":                      failure(UnpackDigests(listed, 2)),
		"no points":                       failure(UnpackPoints(listed, nil)),
		"no file":                         failure(UnpackPoints(listed[:9], nil)),
		"infinite outputs":                failure(UnpackLists(must(PackLists([][]float64{{math.Inf(1)}})), []int{1})),
	} {
		if err == nil {
			t.Errorf("%s are taken", what)
		}
	}
	for i := range data {
		spoilt := append([]byte(nil), data...)
		spoilt[i] ^= 1 << (i % 8)
		_, _ = UnpackPoints(spoilt, nil) // or it panics
	}
}

func failure[T any](_ T, err error) error { return err }

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestGradientJob: questions that make no sense are refused, and each is of the workers that compute gradients.
func TestGradientJob(t *testing.T) {
	good := Gradient{Back: true, Lo: 1, Hi: 2, Shards: 4, Parts: []Part{{Shard: 1}}}
	if err := good.valid(); err != nil || (Job{Gradient: &good}).Role() != Gradients {
		t.Errorf("%v, %q", err, Job{Gradient: &good}.Role())
	}
	for _, change := range []func(g *Gradient){
		func(g *Gradient) { g.Lo = 2 },
		func(g *Gradient) { g.Hi = 5 },
		func(g *Gradient) { g.Lo = -1 },
		func(g *Gradient) { g.Of = trainer.Old },
		func(g *Gradient) { g.Base = true },
		func(g *Gradient) { g.Parts[0].Shard = 2 },
	} {
		bad := good
		bad.Parts = append([]Part(nil), good.Parts...)
		change(&bad)
		if bad.valid() == nil {
			t.Errorf("%+v is taken", bad)
		}
		if (Job{Gradient: &bad}).Name() == (Job{Gradient: &good}).Name() {
			t.Errorf("%+v has the name of another", bad)
		}
	}
}
