package track

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded is testdata/table.json: the numbers to log.
type recorded struct {
	Project, Run string
	RunID        string         `json:"run_id"`
	Config       map[string]any `json:"config"`
	Rows         []struct {
		Step   int            `json:"step"`
		Time   float64        `json:"wall_time"`
		Values map[string]any `json:"values"`
	}
	Image struct {
		Tag, Caption  string
		Step          int
		Width, Height int
		PNG           string `json:"png_base64"`
	}
	Text struct {
		Tag, Value string
		Step       int
	}
}

// entries are the table's.
func (r *recorded) entries(t *testing.T) []*Entry {
	t.Helper()
	var all []*Entry
	for _, row := range r.Rows {
		e := &Entry{Order: row.Step, Iteration: row.Step, Time: row.Time}
		for _, name := range slices.Sorted(maps.Keys(row.Values)) {
			v, ok := row.Values[name].(float64)
			if !ok {
				v = map[any]float64{"NaN": math.NaN(), "Infinity": math.Inf(1)}[row.Values[name]]
			}
			e.Scalars = append(e.Scalars, Scalar{name, v})
		}
		if row.Step == r.Image.Step {
			data, err := base64.StdEncoding.DecodeString(r.Image.PNG)
			if err != nil {
				t.Fatal(err)
			}
			e.Pictures = []Picture{{r.Image.Tag, r.Image.Caption, r.Image.Width, r.Image.Height, data}}
		}
		if row.Step == r.Text.Step {
			e.Texts = []Text{{r.Text.Tag, r.Text.Value}}
		}
		all = append(all, e)
	}
	return all
}

// writeTable writes the table as a layout, in one go or with a commit after every entry.
func writeTable(t *testing.T, as, dir string, oneByOne bool) {
	t.Helper()
	text, err := os.ReadFile("testdata/table.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	run := &Run{Project: r.Project, Name: r.Run, ID: r.RunID, Began: r.Rows[0].Time}
	for _, key := range slices.Sorted(maps.Keys(r.Config)) {
		run.Config = append(run.Config, Setting{key, r.Config[key]})
	}
	l, _, err := layoutOf(as)
	if err != nil {
		t.Fatal(err)
	}
	target, err := l.open(dir, run, state{As: as, ID: run.ID})
	if err != nil {
		t.Fatal(err)
	}
	all := r.entries(t)
	for i, e := range all {
		if err := target.Append(e); err != nil {
			t.Fatal(err)
		}
		if m := (Mark{Entries: i + 1, Time: e.Time}); oneByOne || i == len(all)-1 {
			if err := target.Commit(m); err != nil {
				t.Fatal(err)
			}
		}
		if oneByOne && !l.again { // as a process that was killed, and began again
			if err := target.Append(e); err != nil {
				t.Fatal(err)
			}
			if err := target.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := readState(dir)
			if err != nil {
				t.Fatal(err)
			}
			if target, err = l.open(dir, run, *s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := target.Finish("finished"); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
}

// contents are all files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTable: the recorded table is written with the bytes that its owners' readers were shown, and the same
// ones where the process was killed after every entry.
func TestTable(t *testing.T) {
	for _, as := range files() {
		once, often := t.TempDir(), t.TempDir()
		writeTable(t, as, once, false)
		writeTable(t, as, often, true)
		a, b := contents(t, once), contents(t, often)
		if as == "trackio" { // lines are divided among fragments as they came
			a, b = joined(a), joined(b)
		}
		for name := range a {
			if a[name] != b[name] {
				t.Errorf("%s: %s differs where the export was cut short", as, name)
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %d files, and %d where the export was cut short", as, len(a), len(b))
		}
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if name != stateFile {
				fmt.Fprintf(sum, "%s\n%d\n%s", name, len(a[name]), a[name])
			}
		}
		if got := hex.EncodeToString(sum.Sum(nil))[:16]; got != checked()[as] {
			t.Errorf("%s: the files have the sum %s, not %s: show them to their reader with -readers before it is changed", as, got, checked()[as])
		}
	}
}

// TestAnswers: the records that W&B's Go client answers have a slot for it; without one 'wandb beta sync' never ended.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	writeTable(t, "wandb", dir, false)
	for name, text := range contents(t, dir) {
		if !strings.HasSuffix(name, ".wandb") {
			continue
		}
		for _, control := range []string{"\x82\x01\x07\x22\x03run\x28\x01", "\x82\x01\x08\x22\x04exit\x28\x01"} {
			if strings.Count(text, control) != 1 {
				t.Errorf("%s has not one %q", name, control)
			}
		}
	}
}

// joined puts trackio's fragments into one.
func joined(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "inbox/") {
			out["inbox"] += all[name]
		} else {
			out[name] = all[name]
		}
	}
	return out
}

var readers = flag.String("readers", "", "a program that reads exports, with its first arguments")

// TestReaders shows the table to the readers of TensorBoard, W&B and trackio, where -readers names a
// program that reads FOLDER KIND --compare.
func TestReaders(t *testing.T) {
	check := strings.Fields(*readers)
	if len(check) == 0 {
		t.Skip("-readers names no program that reads exports")
	}
	for _, as := range []string{"tensorboard", "wandb", "trackio"} {
		dir := t.TempDir()
		writeTable(t, as, dir, false)
		if out, err := exec.CommandContext(t.Context(), check[0], append(check[1:], dir, as, "--compare")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", as, err, out)
		}
	}
}

// checked are sums of the tables that readers found equal.
func checked() map[string]string {
	return map[string]string{"tensorboard": "34fa7e26002bbfd7", "trackio": "bc516719d11ee934", "wandb": "732685c83b190d51", "csv": "773917bc1a3bd7e3", "parquet": "38116c76de0f771f"}
}

// files are the layouts that are files.
func files() []string {
	return slices.DeleteFunc(Layouts(), func(as string) bool { return strings.HasSuffix(as, "=URL") })
}
