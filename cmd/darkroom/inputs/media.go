package inputs

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// IsPicture goes by a file's ending.
func IsPicture(path string) bool {
	return slices.Contains(PictureFiles, strings.ToLower(filepath.Ext(path)))
}

// PictureFiles are the endings of files of pictures. A GIF may be either: it is taken for a clip.
var PictureFiles = []string{".png", ".jpg", ".jpeg", ".webp"}

// MaxPicture is the largest file of a picture, as vision has it.
const MaxPicture = 64 << 20

// OpenMedia reads a picture or a clip.
func OpenMedia(path string, item *rewards.Item) (err error) {
	if video.Named(path) {
		item.Clip, err = video.Open(path, video.Limits{})
		return err
	}
	item.Image, err = vision.Open(path, vision.Limits{})
	return err
}

// MaxLine is the longest line of an items file.
const MaxLine = 16 << 20
