//go:build nocuda || !linux || !(amd64 || arm64)

package cuda

import "errors"

// library stands where the program is built without CUDA.
type library struct{ path string }

var errBuilt = errors.New("this program was built without CUDA (the tag nocuda, or a system other than Linux)")

func openLibrary() (*library, error) { return nil, errBuilt }

func openProducts(int) (*library, error) { return nil, errBuilt }

func openNCCL() (*library, error) { return nil, errBuilt }

func (l *library) call(string, ...uintptr) (int32, error) { return 0, errBuilt }

func (l *library) pointer(string, ...uintptr) (uintptr, error) { return 0, errBuilt }

func (l *library) find(string) error { return errBuilt }
