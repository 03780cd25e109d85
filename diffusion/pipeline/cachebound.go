package pipeline

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How large the folder of texts may grow. A file that is read counts as new, and the oldest go first. Several
// programs may share a folder: a file that another one deleted is computed again.

// UsualCacheLimit is Cache.Limit where nothing else is asked for.
const UsualCacheLimit = 16 << 30

// touch says that a text was needed now. Where that cannot be written down, it only goes earlier.
func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// bound counts a file that was just written, and makes room now and then.
func (p *Pipeline) bound(path string) error {
	most := cmp.Or(p.Cache.Limit, UsualCacheLimit)
	info, err := os.Stat(path)
	if err != nil {
		return nil // another program made room already
	}
	if p.written += info.Size(); p.swept && p.written < most/16 {
		return nil
	}
	p.swept, p.written = true, 0
	return sweep(p.Cache.Dir, most)
}

// sweep deletes the texts that were not needed for the longest time, until what is left takes less than most
// bytes by an eighth.
func sweep(dir string, most int64) error {
	all, err := files(dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), ".safetensors") })
	sum := int64(0)
	for _, f := range all {
		sum += f.Size()
	}
	if sum <= most {
		return nil
	}
	slices.SortFunc(all, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range all {
		if sum <= most-most/8 {
			break
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum -= f.Size()
	}
	return nil
}
