package darkroom_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/darkroom-rl/darkroom"

// places lists the packages from the bottom of the building to its top. A package
// may import packages of an earlier line, and those of its own place; nothing else of its line, and nothing of a later
// one. "x" is the package x alone, "x/..." also all below it; the closest match counts. ARCHITECTURE.md explains
// the order.
var places = [][]string{
	{"portable", "outside/..."}, // outside: files, texts and programs of strangers
	{"kernels/rng", "sde/...", "video", "assets/...", "config"},
	{"kernels"},
	{"kernels/ref"},
	{"internal/emulators/...", "internal/golden/..."}, // processors that are not at hand, and recorded cases, for tests
	{"kernels/exchange", "kernels/kerneltest/..."},
	{"kernels/cpu/...", "kernels/cuda/..."},
	{"kernels/tensor/..."},
	{"kernels/autograd/..."},
	{"kernels/nn/..."},
	{"video/flow/..."},
	{"vision/..."},
	{"diffusion/...", "rewards/...", "video/..."},
	{"diffusion/pipeline", "data/...", "record/..."}, // pipeline: of the networks of pictures and of clips
	{"trainer/..."},
	{"internal/rigs/..."}, // small models, runs and engines, for tests
	{"view/..."},
	{"cmd/..."},
	{"internal/...", "examples/..."},
}

// floors lists the packages inside a place, from its bottom to its top: a package imports packages of a lower floor,
// and nothing beside it. "." is the place's root. Tests may look up: a run's tests also cover its parts.
var floors = map[string][][]string{
	"kernels/cpu":  {{"isa"}, {"noise", "peak", "gemm", "rows", "unpack"}, {"attention"}, {"."}, {"choice"}},
	"kernels/cuda": {{"driver"}, {"blas", "nccl"}, {".", "double"}},
	"kernels/nn":   {{"safetensors", "hub"}, {"quant"}, {"edition", "torchfile"}, {"."}, {"peft"}},
	"vision":       {{"jpeg", "pytext"}, {"."}, {"tokenizer", "features", "scenes"}, {"clip", "dino", "blip", "vlm", "tools", "scenes/cards", "tools/program", "onnx/proto", "detr"}, {"onnx", "swin"}, {"mask2former", "hed", "rtdetr", "owl", "groundingdino"}, {"detectors", "ppocr", "onnx/nodetest", "faces"}},
	"video":        {{"."}, {"flow"}, {"dit", "vae"}},
	"diffusion":    {{"."}, {"mmdit", "resnet", "single", "t5"}, {"flux", "flux2", "qwenimage", "unet", "vae", "zimage"}, {"pipeline"}},
	"rewards":      {{"boxes", "edits", "motion", "call"}, {"evidence", "tables"}, {"."}, {"answers", "neural", "preference", "scorers"}, {"judge"}, {"kinds"}, {"eval"}},
	"data":         {{"sft"}, {"prompts"}, {"album", "preferences", "suites"}},
	"record":       {{"folder"}, {"ledger"}},
	"trainer": {
		{"advantage", "diagnosis", "optim", "sampling", "engine"},
		{"loss"},
		{"experiment"},
		{"elsewhere", "judges"},
		{"."},
		{"model"},
		{"conversations/augment", "conversations/chat"},
		{"conversations/lessons", "conversations/toolserver"},
		{"conversations/rollout"},
		{"ranks", "pictures", "conversations", "fleet"},
		{"fleet/peer"},
		{"run", "pretrain", "fleet/natsio"},
		{"preflight", "trained"},
		{"trained/layouts"},
	},
	"view": {{"otlp", "report", "compare", "track", "field"}, {"watch"}, {"ablate"}},
}

// pure packages are plain float64 mathematics: they import nothing of the
// engine, and sde nothing but the standard library and package portable.
var pure = []string{"trainer/advantage", "trainer/diagnosis", "trainer/loss"}
var standardOnly = []string{"sde", "config"}

// narrow packages import, of ours, these folders alone: an experiment's file is read, checked and planned
// without the engine, and a record is read without rewards' networks.
var narrow = map[string][]string{
	"trainer/experiment": {"assets", "outside/regular", "portable", "kernels/rng", "kernels/exchange", "sde", "rewards", "vision/tools", "config", "trainer/advantage", "trainer/diagnosis", "trainer/loss",
		"trainer/optim", "trainer/sampling", "data/prompts", "record/ledger"},
	"record/ledger": {"portable", "record/folder", "rewards/evidence", "vision/tools"},
}

// testOnly modules must not become part of the program.
var testOnly = []string{"gorgonia.org/gorgonia", "gorgonia.org/tensor", "github.com/rogpeppe/go-internal", "github.com/google/go-cmp"}

// helpers may be imported by the tests of any package.
var helpers = []string{"kernels/kerneltest", "sde/sdetest", "internal/emulators", "internal/golden", "internal/rigs"}

// configReader is the library of config; its parser is below it.
const configReader = "github.com/pelletier/go-toml/v2"

func TestArrows(t *testing.T) {
	wrong, files := arrows(os.DirFS("."))
	for _, w := range wrong {
		t.Error(w)
	}
	if files < 20 {
		t.Errorf("only %d files were read: the walk is broken", files)
	}
}

// arrows reads the imports of every .go file, whatever its build tags, and
// returns the violations, and the number of files.
func arrows(root fs.FS) (wrong []string, files int) {
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if file != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		files++
		found, err := checkFile(root, file)
		wrong = append(wrong, found...)
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong, files
}

func checkFile(root fs.FS, file string) (wrong []string, err error) {
	src, err := fs.ReadFile(root, file)
	if err != nil {
		return nil, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	from, test := path.Dir(file), strings.HasSuffix(file, "_test.go")
	if from != "." && tier(from) < 0 {
		return []string{fmt.Sprintf("%s: package %s has no place; give it one in arrows_test.go", file, from)}, nil
	}
	for _, spec := range syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if why := arrow(from, name, test); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", file, why))
		}
	}
	return wrong, nil
}

// arrow returns the fault of a package's import; "" without one.
func arrow(from, name string, test bool) string {
	to, ours := strings.CutPrefix(name, module+"/")
	switch {
	case name == "C":
		return "imports C: the default build needs no C compiler"
	case !test && within(name, testOnly):
		return fmt.Sprintf("%s imports %s, which is for tests only", from, name)
	case !ours && within(from, standardOnly) && !test && strings.Contains(name, ".") && !within(name, []string{configReader, module + "/portable"}):
		return fmt.Sprintf("%s imports %s, but may import the standard library only", from, name)
	case !ours || from == "." || test && within(to, helpers):
		return ""
	case tier(to) < 0:
		return fmt.Sprintf("%s, which is imported, has no place; give it one in arrows_test.go", to)
	case within(from, pure) && !test && strings.HasPrefix(to, "kernels"):
		return fmt.Sprintf("%s is plain mathematics and may not import %s", from, to)
	case !test && narrow[from] != nil && !within(to, narrow[from]):
		return fmt.Sprintf("%s may import of ours only %s, not %s", from, strings.Join(narrow[from], ", "), to)
	case place(from) == place(to) || folder(from) == folder(to) && folder(to) != "":
		return inside(from, to, test)
	case tier(to) >= tier(from):
		return fmt.Sprintf("%s may not import %s: the arrow does not point down", from, to)
	}
	return ""
}

// folder returns a package's key of floors, "" without one.
func folder(pkg string) string {
	for f := range floors {
		if within(pkg, []string{f}) {
			return f
		}
	}
	return ""
}

// inside returns the fault of an import within one place.
func inside(from, to string, test bool) string {
	f := folder(from)
	if f == "" || test || from == to || path.Base(from) == "gen" {
		return ""
	}
	a, b := floor(f, from), floor(f, to)
	switch {
	case a < 0:
		return fmt.Sprintf("%s has no floor in %s; give it one in arrows_test.go", from, f)
	case b < 0:
		return fmt.Sprintf("%s, which is imported, has no floor in %s; give it one in arrows_test.go", to, f)
	case b == a && !strings.HasPrefix(from, to+"/"):
		return fmt.Sprintf("%s may not import %s: it lies beside it", from, to)
	case b > a:
		return fmt.Sprintf("%s may not import %s: the arrow does not point down in %s", from, to, f)
	}
	return ""
}

// floor is a package's in a folder, -1 where it has none.
func floor(folder, pkg string) int {
	name := "."
	if pkg != folder {
		name = strings.TrimPrefix(pkg, folder+"/")
	}
	return slices.IndexFunc(floors[folder], func(line []string) bool { return slices.Contains(line, name) })
}

// within reports whether a package is one of the folders or below one.
func within(pkg string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return pkg == f || strings.HasPrefix(pkg, f+"/")
	})
}

// place is the closest pattern of places that matches a package, or "".
func place(pkg string) string {
	best, score := "", -1
	for _, p := range slices.Concat(places...) {
		folder, below := strings.CutSuffix(p, "/...")
		if pkg != folder && !(below && strings.HasPrefix(pkg, folder+"/")) {
			continue
		}
		closeness := 2 * len(folder)
		if !below {
			closeness++ // "video" is closer to video than "video/..." is
		}
		if closeness > score {
			best, score = p, closeness
		}
	}
	return best
}

// tier is the height of a package's place, -1 where it has none.
func tier(pkg string) int {
	p := place(pkg)
	return slices.IndexFunc(places, func(line []string) bool { return slices.Contains(line, p) })
}

// TestArrowsFails checks the checker on made-up trees: it must object to each
// of the first, and to none of the second.
func TestArrowsFails(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		src := "//go:build plan9 && never\n\npackage p\n"
		for _, i := range imports {
			src += fmt.Sprintf("import %q\n", i)
		}
		return &fstest.MapFile{Data: []byte(src)}
	}
	for name, want := range map[string]struct {
		file, imports, says string
	}{
		"up":            {"kernels/ref/a.go", module + "/kernels/nn", "does not point down"},
		"up in a test":  {"kernels/rng/a_test.go", module + "/kernels/cpu", "does not point down"},
		"far up":        {"vision/clip/a.go", module + "/trainer/pictures", "does not point down"},
		"to the top":    {"trainer/loss/a.go", module + "/cmd/darkroom", "does not point down"},
		"beside":        {"rewards/a.go", module + "/diffusion/vae", "does not point down"},
		"beside, low":   {"kernels/cpu/gemm/a.go", module + "/kernels/cuda", "does not point down"},
		"root of video": {"video/a.go", module + "/video/flow", "does not point down"},
		"rng and ref":   {"kernels/rng/a.go", module + "/kernels/ref", "does not point down"},
		"new package":   {"utils/a.go", "fmt", "has no place"},
		"of nothing":    {"rewards/a.go", module + "/misc", "has no place"},
		"helper":        {"rewards/a.go", module + "/vision/nosuch", ""},
		"pure":          {"trainer/advantage/a.go", module + "/kernels/tensor", "plain mathematics"},
		"settings":      {"trainer/experiment/a.go", module + "/trainer/judges", "may import of ours only"},
		"settings, vlm": {"trainer/experiment/a.go", module + "/vision/vlm", "may import of ours only"},
		"settings' own": {"trainer/experiment/a.go", module + "/rewards/boxes", ""},
		"its test":      {"trainer/experiment/a_test.go", module + "/trainer/judges", ""},
		"record":        {"record/ledger/a.go", module + "/rewards", "may import of ours only"},
		"sde":           {"sde/a.go", "gonum.org/v1/gonum/stat", "standard library only"},
		"cgo":           {"kernels/cuda/a.go", "C", "no C compiler"},
		"oracle":        {"kernels/autograd/a.go", "gorgonia.org/gorgonia", "for tests only"},
		"oracle's use":  {"kernels/autograd/a_test.go", "gorgonia.org/gorgonia", ""},
		"kerneltest":    {"kernels/ref/a_test.go", module + "/kernels/kerneltest", ""},
		"sde's test":    {"sde/a_test.go", "gonum.org/v1/gonum/stat", ""},
		"down":          {"kernels/cpu/gemm/a.go", module + "/kernels/ref", ""},
		"own folder":    {"kernels/cpu/gemm/a.go", module + "/kernels/cpu/isa", ""},
		"all the way":   {"cmd/darkroom/a.go", module + "/kernels/rng", ""},
		"config":        {"config/a.go", configReader + "/unstable", ""},
		"clip":          {"video/flow/a.go", module + "/video", ""},
		"motion":        {"rewards/motion/a.go", module + "/video/flow", ""},
		"flow":          {"video/flow/a.go", module + "/rewards/motion", "does not point down"},
		"inside, up":    {"trainer/experiment/a.go", module + "/trainer/pictures", "may import of ours only"},
		"inner floor":   {"trainer/optim/a.go", module + "/trainer/run", "does not point down in trainer"},
		"inner floor 2": {"rewards/boxes/a.go", module + "/rewards", "does not point down in rewards"},
		"inner beside":  {"kernels/cuda/blas/a.go", module + "/kernels/cuda/nccl", "lies beside it"},
		"inner down":    {"kernels/cuda/a.go", module + "/kernels/cuda/driver", ""},
		"inner test":    {"trainer/optim/a_test.go", module + "/trainer", ""},
		"inner, new":    {"vision/new/a.go", module + "/vision", "has no floor in vision"},
		"beside, video": {"rewards/a.go", module + "/video/dit", "does not point down"},
	} {
		wrong, files := arrows(fstest.MapFS{want.file: file(want.imports)})
		if files != 1 {
			t.Errorf("%s: read %d files", name, files)
		}
		switch {
		case want.says == "" && len(wrong) > 0:
			t.Errorf("%s: objected to: %s", name, wrong)
		case want.says != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], want.says)):
			t.Errorf("%s: got %q, want one line with %q", name, wrong, want.says)
		}
	}
	tree := fstest.MapFS{
		"a/testdata/x.go": file(module + "/nosuch"),
		"_old/x.go":       file(module + "/nosuch"),
		".git/x.go":       file(module + "/nosuch"),
	}
	if wrong, _ := arrows(tree); len(wrong) > 0 {
		t.Errorf("folders that Go ignores: %s", wrong)
	}
}
