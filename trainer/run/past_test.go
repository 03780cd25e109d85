package run

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// begun reports whether a folder holds a run.
func begun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, folder.Config))
	return err == nil
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[at] ^= 1
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// snapshot is a folder's files.
func snapshot(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := contents(t, dir)
	for _, name := range []string{folder.Config, manifestFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = text
	}
	return all
}

// TestOtherInputs: a run does not go on with another model or other prompts, names each file, and leaves
// the folder as it was; with the old ones it goes on.
func TestOtherInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	embedded, err := assets.Resolve("embed:tiny-sd3")
	if err != nil {
		t.Fatal(err)
	}
	model, list, dir := t.TempDir(), filepath.Join(t.TempDir(), "list.jsonl"), filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(model, os.DirFS(embedded)); err != nil {
		t.Fatal(err)
	}
	write := func(prompts string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(prompts), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const prompts = `{"prompt": "a red square on white", "meta": {"picture": "seen.png"}}
{"prompt": "two blue circles on black", "meta": {"picture": ["seen.png", "embed:cards/3"]}}
{"prompt": "a purple circle on gray"}
`
	write(prompts)
	seen := filepath.Join(filepath.Dir(list), "seen.png")
	if err := os.WriteFile(seen, bytes.Repeat([]byte("pixels"), 20), 0o644); err != nil { // no reward opens it
		t.Fatal(err)
	}
	sets := []string{"model.path=" + model, "rollout.prompts=" + list, "evaluate.every=0", "evaluate.prompts=''"}
	if _, err := train(t, parse(t, append(sets, "run.iterations=1")...), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	want := snapshot(t, dir)
	weights := filepath.Join(model, "transformer", "diffusion_pytorch_model.safetensors")
	for _, c := range []struct {
		name string
		do   func()
		undo func()
		says []string
	}{
		{"weights", func() { flip(t, weights, 5000) }, func() { flip(t, weights, 5000) }, []string{weights + ": its bytes have changed"}},
		{"prompts", func() { write(prompts[:strings.Index(prompts, `{"prompt": "a purple`)]) }, func() { write(prompts) }, []string{list + ": its prompts have changed (there were 3, and are 2)"}},
		{"both", func() { flip(t, weights, 6000); write(prompts + `{"prompt": "a green triangle on white"}`) }, func() { flip(t, weights, 6000); write(prompts) },
			[]string{weights, list}},
		{"a picture", func() { flip(t, seen, 50) }, func() { flip(t, seen, 50) },
			[]string{list + ": the pictures that its prompts name have changed (there were 1 files, and are 1)"}},
		{"a picture is gone", func() { rename(t, seen, seen+".away") }, func() { rename(t, seen+".away", seen) }, []string{"the pictures that its prompts name have changed"}},
		{"a file is gone", func() { rename(t, weights, weights+".away") }, func() { rename(t, weights+".away", weights) }, []string{weights + ": it is gone"}},
	} {
		c.do()
		_, err := train(t, parse(t, sets...), dir, true, 2, -1)
		if !errors.Is(err, ErrOther) {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.name, err, s)
			}
		}
		same(t, c.name, want, snapshot(t, dir))
		c.undo()
	}
	if err := os.WriteFile(filepath.Join(model, "README.md"), []byte("a card"), 0o644); err != nil { // nothing reads it
		t.Fatal(err)
	}
	if r, err := train(t, parse(t, append(sets, "run.iterations=2")...), dir, true, 2, -1); err != nil || r.Iterations != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if after := snapshot(t, dir); !bytes.Equal(after[manifestFile], want[manifestFile]) {
		t.Error("the manifest was rewritten")
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestLostCheckpoints: a run whose checkpoints are all spoilt or gone is not begun anew over its own
// ledger, but where that is asked for: then it is kept beside.
func TestLostCheckpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	sets := []string{"evaluate.every=0", "evaluate.prompts=''", "run.iterations=2"}
	if _, err := train(t, parse(t, sets...), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	whole := snapshot(t, dir)
	spoilt, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*", model.TensorsFile))
	if err != nil || len(spoilt) != 2 {
		t.Fatalf("%v, %v", spoilt, err)
	}
	for _, path := range spoilt {
		flip(t, path, 4000)
	}
	was := snapshot(t, dir)
	refused := func(says string) {
		t.Helper()
		_, err := train(t, parse(t, sets...), dir, true, 2, -1)
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--restart") {
			t.Errorf("%v", err)
		}
		same(t, "refused", was, snapshot(t, dir))
	}
	refused(spoilt[1] + " has changed since it was written")
	if err := os.RemoveAll(filepath.Join(dir, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	was = snapshot(t, dir)
	refused("there is none in " + filepath.Join(dir, "checkpoints"))
	if _, err := trainAs(t, parse(t, sets...), Options{Dir: dir, Restart: true}); err != nil {
		t.Fatal(err)
	}
	same(t, "kept beside", was, snapshot(t, dir+".1"))
	same(t, "begun anew", whole, snapshot(t, dir))
}

// TestChangedLedger: a run goes on though a line of its ledger was changed, and says so.
func TestChangedLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	sets := []string{"evaluate.every=0", "evaluate.prompts=''"}
	if _, err := train(t, parse(t, append(sets, "run.iterations=1")...), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(dir, "samples.jsonl"), 0)
	var said []string
	if _, err := trainAs(t, parse(t, append(sets, "run.iterations=2")...), Options{Dir: dir, Resume: true, Logf: saying(&said)}); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "samples.jsonl has changed since the checkpoint was written: line 1 is no longer JSON") || strings.Contains(all, "ledger.jsonl has") {
		t.Errorf("it said %q", all)
	}
}

// TestFailedAtOnce: a run that failed before it had anything to keep does not stand in the way of the
// next, whose settings may be others.
func TestFailedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	s := &scoreServer{mood: gone}
	server := httptest.NewServer(s)
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "run")
	http := `reward=[{name="http", tries=1, pause=0.001, url="` + server.URL + `"}]`
	if _, err := train(t, parse(t, http), dir, false, 2, -1); err == nil || !strings.Contains(err.Error(), "reward http has no score") {
		t.Fatalf("%v", err)
	}
	if !begun(dir) {
		t.Fatal("the folder holds no run, and this test tells nothing")
	}
	if _, err := train(t, parse(t, "run.iterations=1"), dir, true, 2, -1); !errors.Is(err, ErrChanged) {
		t.Errorf("going on with other settings: %v", err)
	}
	if r, err := train(t, parse(t, "run.iterations=1"), dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := train(t, parse(t), filepath.Join(dir, "other"), true, 2, -1); !errors.Is(err, folder.ErrNone) {
		t.Errorf("going on with nothing: %v", err)
	}
}

// younger are keys that resolved files of earlier versions lack, as lines.
var younger = regexp.MustCompile(`(?m)^(lag|decoder) = .*\n`)

// TestEarlier: a run that an earlier version began, whose resolved file lacks keys of today, goes on, and its bytes are
// those of a run that has them all along.
func TestEarlier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
	sets := []string{"run.iterations=2", "rollout.group=2", "optim.updates=1", "sampler.window.size=1", "evaluate.every=9"}
	if _, err := train(t, parse(t, sets...), whole, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if r, err := train(t, parse(t, sets...), parts, false, 2, 1); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%v, %v", r, err)
	}
	path := filepath.Join(parts, folder.Config)
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(younger.FindAll(now, -1)); n != 2 {
		t.Fatalf("%d keys are left out of the file, not 2", n)
	}
	if err := os.WriteFile(path, younger.ReplaceAll(now, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := train(t, parse(t, sets...), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	same(t, "begun by an earlier version", contents(t, whole), contents(t, parts))
}
