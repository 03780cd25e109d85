// Package runtest writes folders as runs leave them, for tests of pages: with drawn pictures, scores that rise, and
// texts that must not become markup where a test wants them.
//
//	dir := runtest.Write(t, filepath.Join(t.TempDir(), "first"), runtest.Options{Iterations: 12})
package runtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Options are the content of a folder.
type Options struct {
	Iterations int
	Every      int    // evaluations; 0: none
	Prompts    int    // held out
	Seed       uint64 // of all numbers
	Live       bool   // it has not ended
	Talks      bool
	Text       string // part of every prompt, label and answer
	NoPictures bool
	Clips      bool // held-out samples move: their sheets are animated
}

// A writer writes one folder.
type writer struct {
	t   testing.TB
	dir string
	Options
	heldOut []scenes.Scene
}

const settings = `
[run]
name = "made"
seed = %d
iterations = %d
[model]
path = "embed:tiny-sd3"
[rollout]
prompts = "p.txt"
[[reward]]
name = "scene"
[[reward]]
name = "aesthetic"
train = false
[sampler]
steps = 4
window = { size = 2, drop = 1 }
`

// Write writes a folder and returns it.
func Write(t testing.TB, dir string, o Options) string {
	t.Helper()
	w := &writer{t: t, dir: dir, Options: o}
	w.file("config.toml", fmt.Appendf(nil, settings, o.Seed, max(o.Iterations, 1)))
	w.file("manifest.json", fmt.Appendf(nil, `{"version": "darkroom (devel)", "system": "linux/amd64", "backend": "cpu/avx2, 2 threads", "seed": %d, "prompts": 4, "heldout": %d}`, o.Seed, o.Prompts))
	for i := range o.Prompts {
		w.heldOut = append(w.heldOut, scenes.Random(w.stream("held out", i), scenes.Everything))
	}
	result := ledger.Result{Status: ledger.UnderWay, Iterations: o.Iterations, Rewards: map[string]string{"scene": "trained", "aesthetic": "gold"}, HeldOut: map[string]ledger.Gain{}}
	if o.Every > 0 {
		result.HeldOut = w.gains(w.evaluation(0), nil, 0)
	}
	if w.Append(1, o.Iterations); o.Every > 0 && o.Iterations >= o.Every {
		last := o.Iterations / o.Every * o.Every
		result.HeldOut = w.gains(w.samples(0), w.samples(last), last)
	}
	if !o.Live {
		result.Status = ledger.Finished
	}
	w.json("result.json", result)
	if o.Talks {
		w.talks()
	}
	return dir
}

// Grow appends iterations to a folder, as a run under way does.
func Grow(t testing.TB, dir string, o Options, from, to int) {
	t.Helper()
	w := &writer{t: t, dir: dir, Options: o}
	for i := range o.Prompts {
		w.heldOut = append(w.heldOut, scenes.Random(w.stream("held out", i), scenes.Everything))
	}
	w.Append(from, to)
}

// Append writes iterations from one to another.
func (w *writer) Append(from, to int) {
	var lines, samples, timing bytes.Buffer
	for i := from; i <= to; i++ {
		l := w.line(i)
		if w.Every > 0 && i%w.Every == 0 {
			l.HeldOut = measures(w.evaluation(i))
		}
		if i == 5 && w.Text != "" {
			l.Fired = []string{"heldout.scene fell " + w.Text}
		}
		record(w.t, &lines, l)
		w.kept(&samples, i)
		record(w.t, &timing, ledger.TimingLine{Iteration: i, Seconds: map[string]float64{"roll": 1 + w.noise("roll", i, 0.1), "score": 0.5, "train": 2, "all": 3.6}})
	}
	w.add("samples.jsonl", samples.Bytes())
	w.add("timing.jsonl", timing.Bytes())
	w.add("ledger.jsonl", lines.Bytes())
}

// level is a run's progress after n iterations, from 0 to 1.
func (w *writer) level(i int) float64 {
	return 1 - math.Exp(-2.5*float64(i)/float64(max(w.Iterations, 10)))
}

func (w *writer) stream(what string, at ...int) *rng.Stream {
	k := rng.New(w.Seed + 7).With(rng.Purpose(what))
	for _, a := range at {
		k = k.With(rng.Purpose(fmt.Sprint(a)))
	}
	return k.Draw()
}

// noise is a number around 0.
func (w *writer) noise(what string, i int, much float64) float64 {
	return much * (2*w.stream(what, i).Float64() - 1)
}

// line is an iteration's.
func (w *writer) line(i int) ledger.Line {
	total, gold := 0.45+0.4*w.level(i)+w.noise("total", i, 0.06), 0.3-0.05*w.level(i)+w.noise("gold", i, 0.1)
	counts := make([]int, 16)
	for k := range 48 {
		counts[min(15, max(0, int(16*(total+w.noise(fmt.Sprint("bin", k), i, 0.3)))))]++
	}
	return ledger.Line{Iteration: i, Window: []int{0, 1}, Prompts: []int{1, 2, 3, 4}, Samples: 48, Spread: 0.08,
		Total:     ledger.Spread{Mean: total, Std: 0.1, Least: total - 0.2, Most: total + 0.2},
		Rewards:   map[string]ledger.Spread{"scene": {Mean: total, Std: 0.1, Least: 0, Most: 1}, "aesthetic": {Mean: gold, Std: 0.4, Least: -1, Most: 1}},
		Diversity: 0.5 - 0.1*w.level(i), BestOf: map[string]float64{"2": total + 0.04, "4": total + 0.07},
		Histogram: &ledger.Histogram{Low: 0, High: 1, Counts: counts, Modes: 5},
		Pictures:  map[string]float64{"brightness": 150 + w.noise("b", i, 9), "saturation": 0.2, "contrast": 40},
		Updates: []ledger.UpdateLine{{Loss: 0.01, Gradient: 0.1 + w.noise("g", i, 0.05), Rate: 1e-5, RatioMean: 1, RatioMost: 1},
			{Loss: w.noise("loss", i, 2e-9), Gradient: 0.12 + w.noise("g2", i, 0.05), Rate: 1e-5, RatioMean: 1 + w.noise("ratio", i, 1e-5), RatioMost: 1.0003 + w.noise("most", i, 1e-4),
				Metrics: map[string]float64{"clipped": 0.3 + w.noise("clipped", i, 0.1), "clipped_high": 0.1, "clipped_low": 0.2, "approx_kl": 2e-8 + w.noise("approx", i, 5e-9), "kl": 1e-4 * float64(i)}}}}
}

// samples are an evaluation's.
func (w *writer) samples(i int) []ledger.HeldOutLine {
	var all []ledger.HeldOutLine
	for p, s := range w.heldOut {
		total := min(1, 0.4+0.45*w.level(i)+w.noise(fmt.Sprint("prompt", p), 0, 0.12)+w.noise(fmt.Sprint("heldout", p), i, 0.05))
		gold := 0.3 - 0.1*w.level(i) + w.noise(fmt.Sprint("gold", p), i, 0.2)
		all = append(all, ledger.HeldOutLine{Iteration: i, Prompt: p, Text: s.Prompt + w.Text, Total: &total,
			Scores: map[string]ledger.ScoreLine{"scene": {Value: &total, Parts: map[string]float64{"task": total, "clean": 0.9}, Evidence: w.evidence(s)}, "aesthetic": {Value: &gold}}})
	}
	return all
}

// evidence is the boxes of a scene's objects: where they were asked for, and found to the right of it.
func (w *writer) evidence(s scenes.Scene) (all []evidence.Reason) {
	for i, o := range s.Objects {
		want, found := boxes.Box(o.Box), boxes.Box{o.Box[0] + 3, o.Box[1] + 1, o.Box[2] + 3, o.Box[3] + 1}
		label := o.Color + " " + o.Shape + w.Text
		all = append(all, evidence.Reason{What: "asked for", Text: label, Box: &want}, evidence.Reason{What: "found", Text: label, Box: &found, Value: 0.9 - 0.1*float64(i)})
	}
	return all
}

// evaluation writes a sheet and its captions.
func (w *writer) evaluation(i int) []ledger.HeldOutLine {
	name := fmt.Sprintf("images/heldout_%06d", i)
	if i == 0 {
		name = "images/heldout_before"
	}
	samples := w.samples(i)
	if !w.NoPictures {
		var pictures []*vision.Image
		for p, s := range w.heldOut {
			pictures = append(pictures, w.picture(s, "held", p, i))
		}
		sheet := vision.Sheet{Columns: 8, Scale: 3}
		places, err := sheet.Places(pictures)
		w.must(err)
		for p := range samples {
			samples[p].At = &places[p]
			if !w.Clips {
				samples[p].Size = &[2]int{scenes.Size, scenes.Size}
			}
		}
		w.file(name+".png", w.sheet(sheet, pictures))
		if w.Clips {
			w.file(name+".trails.json", trails(len(samples)))
		}
	}
	var lines bytes.Buffer
	for _, s := range samples {
		record(w.t, &lines, s)
	}
	w.add(ledger.HeldOutFile, lines.Bytes())
	return samples
}

// trails are two ways of points of each clip.
func trails(clips int) []byte {
	const two = `[{"points":[[40,40],[30,40],[20,40]]},{"points":[[60,20],[50,20]],"lost":true}]`
	return []byte("[" + strings.Join(slices.Repeat([]string{two}, clips), ",") + "]")
}

// sheet is a file of pictures; of clips of three frames, which slide to the left.
func (w *writer) sheet(sheet vision.Sheet, pictures []*vision.Image) []byte {
	m, err := sheet.Draw(pictures)
	w.must(err)
	if !w.Clips {
		return encoded(w.t, m)
	}
	clip := &video.Clip{Width: m.Width, Height: m.Height, Rate: video.Rate{Num: 5, Den: 1}}
	for range 3 {
		clip.Frames = append(clip.Frames, slices.Concat(m.Pix[3*16:], m.Pix[:3*16]))
		m = &vision.Image{Width: m.Width, Height: m.Height, Pix: clip.Frames[len(clip.Frames)-1]}
	}
	var out bytes.Buffer
	w.must(video.EncodeAPNG(&out, clip))
	return out.Bytes()
}

// picture is a scene, the less damaged the more was learned.
func (w *writer) picture(s scenes.Scene, what string, p, i int) *vision.Image {
	kind := scenes.Degradations[p%3]
	px, err := scenes.Degrade(s.Draw(scenes.Jitter(w.stream(what+" jitter", p))), kind, 0.95*(1-w.level(i)), w.stream(what+" damage", p))
	w.must(err)
	return &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}
}

// kept are an iteration's samples, of which the best and the worst have a picture.
func (w *writer) kept(out *bytes.Buffer, i int) {
	for k := range 4 {
		s := scenes.Random(w.stream("trained", i, k/2), scenes.Everything)
		total, advantage := 0.4+0.4*w.level(i)+0.05*float64(k), float64(k)-1.5
		l := ledger.SampleLine{Iteration: i, Prompt: k / 2, Sample: k, Text: s.Prompt + w.Text, Total: &total, Advantage: &advantage,
			Scores: map[string]ledger.ScoreLine{"scene": {Value: &total, Parts: map[string]float64{"task": total, "clean": 0.9}, Evidence: w.evidence(s)}, "aesthetic": {Missing: "the judge was busy" + w.Text}}}
		if end := map[int]string{0: "worst", 3: "best"}[k]; end != "" && !w.NoPictures {
			l.Picture = fmt.Sprintf("images/%06d_%s.png", i, end)
			w.file(l.Picture, encoded(w.t, w.picture(s, end, k, i)))
		}
		record(w.t, out, l)
	}
}

// measures are an evaluation's means.
func measures(samples []ledger.HeldOutLine) map[string]ledger.Measure {
	all := map[string]ledger.Measure{}
	for _, name := range []string{"total", "scene", "aesthetic"} {
		var groups [][]float64
		for _, s := range samples {
			v := s.Total
			if name != "total" {
				v = s.Scores[name].Value
			}
			groups = append(groups, []float64{*v})
		}
		all[name] = ledger.MeasureOf(groups)
	}
	return all
}

func (w *writer) gains(before, after []ledger.HeldOutLine, last int) map[string]ledger.Gain {
	all := map[string]ledger.Gain{}
	for name, b := range measures(before) {
		g := ledger.Gain{Before: &b, Iteration: last}
		if after != nil {
			a := measures(after)[name]
			g.After = &a
		}
		all[name] = g
	}
	return all
}

func encoded(t testing.TB, m *vision.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := vision.EncodePNG(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func record(t testing.TB, out *bytes.Buffer, v any) {
	t.Helper()
	if err := json.NewEncoder(out).Encode(v); err != nil {
		t.Fatal(err)
	}
}

func (w *writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) json(name string, v any) {
	w.t.Helper()
	text, err := json.Marshal(v)
	w.must(err)
	w.file(name, text)
}

func (w *writer) file(name string, text []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, text, 0o644))
}

// add appends to a file.
func (w *writer) add(name string, text []byte) {
	w.t.Helper()
	w.must(os.MkdirAll(w.dir, 0o755))
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	w.must(err)
	_, err = f.Write(text)
	w.must(err)
	w.must(f.Close())
}

// talks writes conversations of the first iteration and of the last: one call of a tool, one crop, one answer.
func (w *writer) talks() {
	var lines bytes.Buffer
	for _, i := range []int{1, w.Iterations} {
		for k := range 3 {
			record(w.t, &lines, w.talk(i, k))
		}
	}
	w.add(ledger.TranscriptsFile, lines.Bytes())
}

func (w *writer) talk(i, k int) ledger.TranscriptLine {
	table := w.picture(scenes.Random(w.stream("table", k), scenes.Everything), "table", k, w.Iterations)
	crop, err := table.Crop(8, 8, 24, 24)
	w.must(err)
	stem := fmt.Sprintf("images/episode_%06d_%02d", i, k)
	w.file(stem+".png", encoded(w.t, table.Enlarge(3)))
	w.file(stem+"_saw_00.png", encoded(w.t, table))
	w.file(stem+"_saw_01.png", encoded(w.t, crop))
	total, advantage := float64(k%2), float64(k)-0.7
	said := []string{"I", " should", " look", " closer", ".", "The", " digit", " is", " seven" + w.Text}
	t := &tools.Transcript{Prompt: 1, End: tools.Answered, Turns: []tools.Turn{
		{From: 1, To: 6, Observed: 6, Calls: []tools.CallTaken{{Tool: "zoom", Ops: []tools.Op{{Kind: "crop", Rect: tools.Rect{8, 8, 32, 32}}}}}},
		{From: 6, To: 10, Observed: 10}},
		Shots: []tools.Shot{{Width: 64, Height: 64, ShownWidth: 64, ShownHeight: 64, Turn: -1, Root: -1}, {Width: 12, Height: 12, ShownWidth: 24, ShownHeight: 24, Turn: 0, Root: 0}}}
	for at := range 10 {
		t.Tokens, t.LogProb = append(t.Tokens, int32(at)), append(t.LogProb, -0.3*float64(at%4))
		t.Sampled, t.Reward = append(t.Sampled, at > 0), append(t.Reward, 0)
	}
	return ledger.TranscriptLine{Iteration: i, Prompt: k, Sample: k, Text: "Which digit is on the red card?" + w.Text, Replies: []string{"", ""}, Pieces: said,
		Picture: stem + ".png", Saw: []string{stem + "_saw_00.png", stem + "_saw_01.png"}, Total: &total, Advantage: &advantage, Episode: t}
}
