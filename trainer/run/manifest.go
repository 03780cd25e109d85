package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

const manifestFile = "manifest.json"

// Manifest is manifest.json: what a run was begun with, so far as it is not in its config. A run that
// goes on compares itself with it (inputs.go), and leaves it as it is.
type Manifest struct {
	Version string            `json:"version"`
	Go      string            `json:"go"`
	System  string            `json:"system"`
	Backend string            `json:"backend"`
	Seed    int               `json:"seed"`
	Seeds   []experiment.Seed `json:"seeds"`
	Model   []ModelFile       `json:"model"`
	Base    []ModelFile       `json:"base,omitempty"`    // that model.base names
	Adapter []ModelFile       `json:"adapter,omitempty"` // that model.adapter names
	Teacher []ModelFile       `json:"teacher,omitempty"` // that model.teacher names
	Prompts int               `json:"prompts"`
	HeldOut int               `json:"heldout"`
	// Sums of the prompts' texts and what rewards are told of them.
	PromptsSum string `json:"prompts_sha256"`
	HeldOutSum string `json:"heldout_sha256,omitempty"`
	// Sum of the files that training's prompts read their pictures from, and how many there are (picturesums.go).
	PicturesSum string `json:"pictures_sha256,omitempty"`
	Pictures    int    `json:"pictures,omitempty"`
	// What a model of [episode] is told of its tools.
	Instructions *tools.Instructions `json:"instructions,omitempty"`
}

// ModelFile is a file of the model's folder.
type ModelFile struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256,omitempty"`
	Sampled string `json:"sampled_sha256,omitempty"` // of a very large one, from pieces of it
}

// A file up to mostHashed is read whole for its sum; of a larger one as many pieces, evenly spread from
// its first byte to its last.
const (
	mostHashed = 1 << 28
	pieces     = 256
	pieceBytes = 1 << 16
)

// manifest writes manifest.json, where there is none.
func (t *training) manifest() error {
	if _, err := os.Stat(t.files.folder.Path(manifestFile)); err == nil {
		return nil
	}
	plan, err := t.Plan()
	if err != nil {
		return err
	}
	m := Manifest{Version: t.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Seed: t.Run.Seed, Seeds: plan.Seeds,
		Prompts: len(t.train), HeldOut: len(t.heldOut)}
	if m.Backend = strings.Join(t.devices(), "; "); t.wire != "" {
		m.Backend += "; " + t.wire
	}
	if m.PromptsSum, err = sumOf(t.train); err != nil {
		return err
	}
	if len(t.heldOut) > 0 {
		if m.HeldOutSum, err = sumOf(t.heldOut); err != nil {
			return err
		}
	}
	if m.PicturesSum, m.Pictures, err = picturesSum(t.Named(), t.train); err != nil {
		return err
	}
	if t.Episode != nil {
		told, err := t.Episode.Instructions(t.Model.Path)
		if err != nil {
			return err
		}
		if told != (tools.Instructions{}) {
			m.Instructions = &told
		}
	}
	if m.Model, err = modelFiles(t.model.Dir()); err != nil {
		return err
	}
	for _, o := range t.others(&m) {
		if _, *o.files, err = o.read(o.path); err != nil {
			return err
		}
	}
	return t.files.folder.WriteJSON(manifestFile, m)
}

// devices say what computes.
func (t *training) devices() (all []string) {
	for _, be := range append([]kernels.Backend{t.Backend}, t.Further...) {
		if s, ok := be.(interface{ String() string }); ok {
			all = append(all, s.String())
		}
	}
	return all
}

// sumOf is of prompts: of the list in JSON, a prompt at a time,
// since as a whole it takes as much memory as a long list.
func sumOf(list []prompts.Prompt) (string, error) {
	h := sha256.New()
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	sep := "["
	for i := range list {
		one.Reset()
		if err := e.Encode(&list[i]); err != nil {
			return "", err
		}
		_, _ = io.WriteString(h, sep) // a hash takes everything
		_, _ = h.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
		sep = ","
	}
	_, _ = io.WriteString(h, "]\n")
	return hex.EncodeToString(h.Sum(nil)), nil
}

// modelFiles are the files of a model's folder, or the one that it is.
func modelFiles(dir string) (all []ModelFile, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if name == "." {
			name = filepath.Base(path)
		}
		f, err := hashed(path, name)
		all = append(all, f)
		return err
	})
	return all, err
}

// An other is what a run reads beside its model, and where the manifest keeps its files.
type other struct {
	key, path string
	read      func(path string) (dir string, all []ModelFile, err error)
	files     *[]ModelFile
}

func (t *training) others(m *Manifest) []other {
	return []other{
		{"model.base", t.Model.Base, modelOrAdapter, &m.Base},
		{"model.adapter", t.Model.Adapter, adapterFiles, &m.Adapter},
		{"model.teacher", t.Model.Teacher, modelOrAdapter, &m.Teacher},
	}
}

// modelOrAdapter are those of a model's folder, or of an adapter.
func modelOrAdapter(path string) (dir string, all []ModelFile, err error) {
	if path == "" {
		return "", nil, nil
	}
	if dir, err = assets.Resolve(path); err != nil {
		return "", nil, err
	}
	_, pictures := os.Stat(filepath.Join(dir, "model_index.json"))
	if _, speaks := os.Stat(filepath.Join(dir, "config.json")); pictures != nil && speaks != nil {
		return adapterFiles(path)
	}
	all, err = modelFiles(dir)
	return dir, all, err
}

// adapterFiles are those of the adapter that training begins with, and the folder that they lie in; none where it
// begins with a new one.
func adapterFiles(path string) (dir string, all []ModelFile, err error) {
	if path == "" {
		return "", nil, nil
	}
	paths, err := model.AdapterFiles(path)
	for _, path := range paths {
		f, err := hashed(path, filepath.Base(path))
		if err != nil {
			return "", nil, err
		}
		dir, all = filepath.Dir(path), append(all, f)
	}
	return dir, all, err
}

// hashed is a file with its sum.
func hashed(path, name string) (ModelFile, error) {
	info, err := os.Stat(path) // through the links of the hub's cache
	if err != nil {
		return ModelFile{}, err
	}
	f := ModelFile{Name: filepath.ToSlash(name), Bytes: info.Size()}
	if f.Bytes <= mostHashed {
		f.SHA256, err = folder.Sum(path)
	} else {
		f.Sampled, err = sampled(path, f.Bytes)
	}
	return f, err
}

// sampled is the sum of a large file's pieces.
func sampled(path string, bytes int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	for i := range int64(pieces) {
		at := (bytes - pieceBytes) / (pieces - 1) * i
		if i == pieces-1 {
			at = bytes - pieceBytes
		}
		if _, err := io.Copy(h, io.NewSectionReader(file, at, pieceBytes)); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
