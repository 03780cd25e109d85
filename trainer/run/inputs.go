package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
)

// A run that goes on reads the model and the prompts that it was begun with: before anything is opened
// they are compared with manifest.json.

// ErrOther says that the model's files, its first adapter's, the prompts or their pictures are others than the run was
// begun with.
var ErrOther = errors.New("the run was begun with another model, other prompts or other pictures")

// checkInputs refuses to go on with other files, and names each.
func (t *training) checkInputs() error {
	path := t.files.folder.Path(manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w\nhint: put it back from a copy; without it the run goes on, but nobody knows whether model and prompts are what they were", path, err)
	}
	if m.Version != t.Version {
		t.Say("note: the run was begun by version %s and goes on with %s, whose numbers may differ", m.Version, t.Version)
	}
	t.files.heldOutSum = m.HeldOutSum
	if here := t.devices(); m.Backend != "" && otherBits(strings.Split(m.Backend, "; "), here) {
		t.Say("note: the run was begun on %s and goes on on %s, whose bits are others: it leaves other bytes than a run that stayed there", m.Backend, strings.Join(here, "; "))
	}
	list, err := t.changedPrompts(m)
	if err != nil {
		return err
	}
	dir, err := assets.Resolve(t.Model.Path)
	if err != nil {
		return err
	}
	has, err := modelFiles(dir)
	if err != nil {
		return fmt.Errorf("comparing the model with the one that the run was begun with: %w", err)
	}
	list = append(list, changedFiles(dir, has, m.Model)...)
	for _, o := range t.others(&m) {
		if len(*o.files) == 0 { // runs of before have none written down
			continue
		}
		if dir, has, err = o.read(o.path); err != nil {
			return fmt.Errorf("comparing %s with the one that the run was begun with: %w", o.key, err)
		}
		list = append(list, changedFiles(dir, has, *o.files)...)
	}
	if len(list) > 0 {
		return fmt.Errorf("%s: %w:\n  %s\nhint: put them back; --restart begins anew with what is there now, and keeps the run beside", t.files.folder.Dir, ErrOther, strings.Join(list, "\n  "))
	}
	return nil
}

// otherBits reports whether devices compute other bits than those that a run was begun on, whose list may have what
// carries gradients at its end. All CPUs compute alike, and so does a graphics card whose products are exact.
func otherBits(begun, now []string) bool {
	kind := func(device string) string {
		if strings.HasPrefix(device, "cpu/") || strings.Contains(device, "products of bf16 exact") {
			return "exact"
		}
		return device
	}
	for i, device := range now {
		if i < len(begun) && kind(begun[i]) != kind(device) {
			return true
		}
	}
	return false
}

// changedPrompts says whether the prompts are others. Held-out ones may be, as all of [evaluate] (remeasure.go).
func (t *training) changedPrompts(m Manifest) (list []string, err error) {
	sum, err := sumOf(t.train)
	if err == nil && m.PromptsSum != "" && sum != m.PromptsSum {
		list = append(list, fmt.Sprintf("%s: its prompts have changed (there were %d, and are %d)", t.Named(), m.Prompts, len(t.train)))
	}
	if err == nil && m.PromptsSum == sum { // of other prompts the pictures are others, too
		more, err := t.changedPictures(m)
		if err != nil {
			return list, err
		}
		list = append(list, more...)
	}
	return list, err
}

// changedPictures says whether the files that prompts read pictures from are others. Runs that were begun before these
// were summed up are not asked.
func (t *training) changedPictures(m Manifest) ([]string, error) {
	if m.PicturesSum == "" {
		return nil, nil
	}
	sum, n, err := picturesSum(t.Named(), t.train)
	if err != nil || sum == m.PicturesSum {
		return nil, err
	}
	return []string{fmt.Sprintf("%s: the pictures that its prompts name have changed (there were %d files, and are %d)", t.Named(), m.Pictures, n)}, nil
}

// changedFiles compares the files that a folder has with those that it had. What was added is not read,
// as long as no file that was there names it.
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
