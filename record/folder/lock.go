package folder

import "errors"

// errHeld says that another process is at work in the folder.
var errHeld = errors.New("another process is training in this folder\nhint: wait for it, or name another folder with --out")
