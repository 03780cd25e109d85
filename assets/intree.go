//go:build device

package assets

import "os"

// models are read from the repository where it travels beside the program (make device): the program is then a third
// as large.
var models = os.DirFS("assets")
