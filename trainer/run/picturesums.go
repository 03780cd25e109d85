package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// One sum stands for all files that prompts read pictures from: a run that goes on learns from the same ones. The names
// count from the prompts' folder on, so a folder may be moved. Files are read whole until wholePictures bytes have
// been read; of each later one the beginning and the number of its bytes count, for data sets that take hours to read.

const (
	wholePictures = 1 << 33
	pictureHead   = 1 << 16
)

// picturesSum is that of a list, with the number of files; "" where there is none.
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
			if errors.Is(err, fs.ErrNotExist) { // whoever opens it says so; a run that went on without it does again
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

// pictureSum is of a file, or of its beginning where it is larger than what may be read.
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
