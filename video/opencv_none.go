//go:build !gocv

package video

// OpenCV is the version that this program was built with; without the tag gocv it is none.
func OpenCV() string { return "" }

// readContainer reads what is neither GIF, PNG nor Y4M.
func readContainer(path, container string, l Limits) (*Clip, error) {
	return readFFmpeg(path, container, l)
}
