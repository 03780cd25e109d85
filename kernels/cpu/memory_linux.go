package cpu

import "golang.org/x/sys/unix"

// adviseHugePages asks for large pages; fresh memory is cleared twice as fast then.
// A refusal costs speed alone.
func adviseHugePages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
