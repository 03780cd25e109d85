package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

const manifestFile = "manifest.json"

// Manifest is manifest.json: the version, devices, model, prompts and pictures that a run was begun with. A run that
// goes on compares its inputs with it, and leaves it as it is.
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
	// Sums of the prompts' texts and data.
	PromptsSum string `json:"prompts_sha256"`
	HeldOutSum string `json:"heldout_sha256,omitempty"`
	// Sum of the files that training's prompts read their pictures from, and how many there are (picturesSum).
	PicturesSum string `json:"pictures_sha256,omitempty"`
	Pictures    int    `json:"pictures,omitempty"`
	// The instructions about tools that a model of [episode] gets.
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

// inputs are a run's files and devices. A run that goes on has those that it was begun with.
type inputs struct {
	*experiment.Experiment
	version        string // of the program
	devices        []kernels.Backend
	train, heldOut []prompts.Prompt
	folder         *folder.Folder
	say            say
}

// write writes the manifest of a new run. A wire carries gradients between several devices; "": there is one.
func (n *inputs) write(modelDir, wire string) error {
	if _, err := os.Stat(n.folder.Path(manifestFile)); err == nil {
		return nil
	}
	plan, err := n.Plan()
	if err != nil {
		return err
	}
	m := Manifest{Version: n.version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Seed: n.Run.Seed, Seeds: plan.Seeds,
		Prompts: len(n.train), HeldOut: len(n.heldOut)}
	if m.Backend = strings.Join(n.deviceNames(), "; "); wire != "" {
		m.Backend += "; " + wire
	}
	if m.PromptsSum, err = sumOf(n.train); err != nil {
		return err
	}
	if len(n.heldOut) > 0 {
		if m.HeldOutSum, err = sumOf(n.heldOut); err != nil {
			return err
		}
	}
	if m.PicturesSum, m.Pictures, err = picturesSum(n.Named(), n.train); err != nil {
		return err
	}
	if n.Episode != nil {
		instructions, err := n.Episode.Instructions(n.Model.Path)
		if err != nil {
			return err
		}
		if instructions != (tools.Instructions{}) {
			m.Instructions = &instructions
		}
	}
	if m.Model, err = modelFiles(modelDir); err != nil {
		return err
	}
	for _, o := range n.others(&m) {
		if _, *o.files, err = o.read(o.path); err != nil {
			return err
		}
	}
	return n.folder.WriteJSON(manifestFile, m)
}

// deviceNames are those of the backends.
func (n *inputs) deviceNames() (all []string) {
	for _, be := range n.devices {
		if s, ok := be.(interface{ String() string }); ok {
			all = append(all, s.String())
		}
	}
	return all
}

// ErrChanged says that the folder's run was begun with other settings.
var ErrChanged = errors.New("the run was begun with other settings")

// checkConfig refuses to go on with other settings that a run depends on.
func (n *inputs) checkConfig() error {
	old, err := os.ReadFile(n.folder.Path(folder.Config))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	before, err := experiment.Parse(n.folder.Path(folder.Config), old, nil)
	if err != nil {
		return err
	}
	if list := experiment.Changes(before, n.Experiment); len(list) > 0 {
		return fmt.Errorf("%s: %w:\n  %s\nhint: --out names another folder for them; --restart begins anew with them, and keeps the run beside", n.folder.Dir, ErrChanged, strings.Join(list, "\n  "))
	}
	return nil
}

// writeConfig writes the resolved experiment.
func (n *inputs) writeConfig() error {
	var text bytes.Buffer
	if err := n.Write(&text); err != nil {
		return err
	}
	return n.folder.Write(folder.Config, text.Bytes())
}

// ErrOther says that the model's files, its first adapter's, the prompts or their pictures are others than the run was
// begun with.
var ErrOther = errors.New("the run was begun with another model, other prompts or other pictures")

// check refuses to go on with other files, and names each. It returns the manifest; nil: a folder without one.
func (n *inputs) check() (*Manifest, error) {
	path := n.folder.Path(manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w\nhint: put it back from a copy; without it the run goes on, but nobody knows whether model and prompts are what they were", path, err)
	}
	if m.Version != n.version {
		n.say("note: the run was begun by version %s and goes on with %s, whose numbers may differ", m.Version, n.version)
	}
	if here := n.deviceNames(); m.Backend != "" && otherBits(strings.Split(m.Backend, "; "), here) {
		n.say("note: the run was begun on %s and goes on on %s, whose bits are others: it leaves other bytes than a run that stayed there", m.Backend, strings.Join(here, "; "))
	}
	list, err := n.changedPrompts(m)
	if err != nil {
		return nil, err
	}
	dir, err := assets.Resolve(n.Model.Path)
	if err != nil {
		return nil, err
	}
	has, err := modelFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("comparing the model with the one that the run was begun with: %w", err)
	}
	list = append(list, changedFiles(dir, has, m.Model)...)
	for _, o := range n.others(&m) {
		if len(*o.files) == 0 { // runs of before have none written down
			continue
		}
		if dir, has, err = o.read(o.path); err != nil {
			return nil, fmt.Errorf("comparing %s with the one that the run was begun with: %w", o.key, err)
		}
		list = append(list, changedFiles(dir, has, *o.files)...)
	}
	if len(list) > 0 {
		return nil, fmt.Errorf("%s: %w:\n  %s\nhint: put them back; --restart begins anew with what is there now, and keeps the run beside", n.folder.Dir, ErrOther, strings.Join(list, "\n  "))
	}
	return &m, nil
}

// otherBits reports whether devices compute other bits than those that a run was begun on, whose list may have the
// transport of gradients at its end. All CPUs compute alike, and so does a graphics card whose products are exact.
func otherBits(begun, now []string) bool {
	kind := func(device string) string {
		if strings.HasPrefix(device, "cpu/") || strings.Contains(device, "products of bf16 exact") {
			return "exact"
		}
		return device
	}
	for i, device := range now {
		if i < len(begun) && strings.Contains(begun[i], " ranks, ") {
			break // the transport: more devices than at the beginning
		}
		if i < len(begun) && kind(begun[i]) != kind(device) {
			return true
		}
	}
	return false
}

// changedPrompts reports changed prompts. Held-out ones may be, as all of [evaluate] (evaluation.go).
func (n *inputs) changedPrompts(m Manifest) (list []string, err error) {
	sum, err := sumOf(n.train)
	if err == nil && m.PromptsSum != "" && sum != m.PromptsSum {
		list = append(list, fmt.Sprintf("%s: its prompts have changed (there were %d, and are %d)", n.Named(), m.Prompts, len(n.train)))
	}
	if err == nil && m.PromptsSum == sum { // of other prompts the pictures are others, too
		more, err := n.changedPictures(m)
		if err != nil {
			return list, err
		}
		list = append(list, more...)
	}
	return list, err
}

// changedPictures reports changed files that prompts read pictures from. Runs that were begun before these
// were summed up are not asked.
func (n *inputs) changedPictures(m Manifest) ([]string, error) {
	if m.PicturesSum == "" {
		return nil, nil
	}
	sum, files, err := picturesSum(n.Named(), n.train)
	if err != nil || sum == m.PicturesSum {
		return nil, err
	}
	return []string{fmt.Sprintf("%s: the pictures that its prompts name have changed (there were %d files, and are %d)", n.Named(), m.Pictures, files)}, nil
}

// changedFiles compares the files that a folder has with those that it had. An added file is not read, as long as no
// earlier file names it.
func changedFiles(dir string, has, had []ModelFile) (list []string) {
	for _, old := range had {
		i := slices.IndexFunc(has, func(f ModelFile) bool { return f.Name == old.Name })
		path := filepath.Join(dir, filepath.FromSlash(old.Name))
		if filepath.Base(dir) == old.Name { // it is one file
			path = dir
		}
		switch {
		case !isRead(old.Name):
		case i < 0:
			list = append(list, path+": it is gone")
		case has[i].Bytes != old.Bytes:
			list = append(list, fmt.Sprintf("%s: it has %d bytes, and had %d", path, has[i].Bytes, old.Bytes))
		case has[i].SHA256 != old.SHA256, old.Sampled != "" && has[i].Sampled != old.Sampled:
			list = append(list, path+": its bytes have changed")
		}
	}
	return list
}

// isRead reports whether a model is read from such a file; others are cards, licences and pictures.
func isRead(name string) bool {
	return slices.Contains([]string{".safetensors", ".json", ".txt", ".model", ".jinja"}, strings.ToLower(filepath.Ext(name)))
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

// An other is an input of a run beside its model, and the place of its files in the manifest.
type other struct {
	key, path string
	read      func(path string) (dir string, all []ModelFile, err error)
	files     *[]ModelFile
}

func (n *inputs) others(m *Manifest) []other {
	return []other{
		{"model.base", n.Model.Base, modelOrAdapter, &m.Base},
		{"model.adapter", n.Model.Adapter, adapterFiles, &m.Adapter},
		{"model.teacher", n.Model.Teacher, modelOrAdapter, &m.Teacher},
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

// One sum covers all files that prompts read pictures from: a run that goes on learns from the same ones. The names
// count from the prompts' folder on, so a folder may be moved. Files are read whole until wholePictures bytes have
// been read; of each later one the beginning and the number of its bytes count, for data sets that take hours to read.

const (
	wholePictures = 1 << 33
	pictureHead   = 1 << 16
)

// picturesSum is that of a list, with the number of files; "" without pictures.
func picturesSum(path string, list []prompts.Prompt) (sum string, files int, err error) {
	return picturesSumUpTo(wholePictures, path, list)
}

func picturesSumUpTo(whole int64, path string, list []prompts.Prompt) (sum string, files int, err error) {
	seen, all := map[string]bool{}, sha256.New()
	for _, p := range list {
		dir := p.Folder(path)
		for _, file := range p.Files(dir) {
			if seen[file] {
				continue
			}
			seen[file] = true
			name, err := filepath.Rel(dir, file)
			if err != nil {
				name = file
			}
			one, bytes, err := pictureSum(file, whole)
			if errors.Is(err, fs.ErrNotExist) { // opening it is an error of its own
				one = "gone"
			} else if err != nil {
				return "", 0, fmt.Errorf("comparing pictures: %w", err)
			}
			whole -= bytes
			fmt.Fprintln(all, filepath.ToSlash(name), bytes, one)
		}
	}
	if len(seen) == 0 {
		return "", 0, nil
	}
	return hex.EncodeToString(all.Sum(nil)), len(seen), nil
}

// pictureSum is of a file, or of its beginning where it is larger than the limit of reading.
func pictureSum(path string, most int64) (sum string, bytes int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h, read := sha256.New(), info.Size()
	if read > most {
		read = pictureHead
	}
	if _, err := io.Copy(h, io.LimitReader(f, read)); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), info.Size(), nil
}
