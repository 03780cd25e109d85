//go:build !gocv

package video

// OpenCV is the version that this program was built with; "" without the tag gocv.
func OpenCV() string { return "" }

// readContainer reads files other than GIF, PNG and Y4M.
func readContainer(path, container string, l Limits) (*Clip, error) {
	return readFFmpeg(path, container, l)
}
