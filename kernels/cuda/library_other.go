//go:build nocuda || !linux || !(amd64 || arm64)

package cuda

import "errors"

// library stands where the program is built without CUDA.
type library struct{ path string }

func openLibrary() (*library, error) {
	return nil, errors.New("this program was built without CUDA (the tag nocuda, or a system other than Linux)")
}

func (l *library) call(string, ...uintptr) (int32, error) { return 0, errors.New("built without CUDA") }
