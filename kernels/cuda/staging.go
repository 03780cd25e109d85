package cuda

// Copies go through pinned host memory, so that an upload returns when its bytes have been taken,
// not when they have arrived. Two halves take turns: one fills while the other's copies run, and
// an event says when a half may be written again.

// stagingHalf is the size of each half, and of the buffer that downloads go through.
const stagingHalf = 4 << 20

type staging struct {
	d      *driver
	stream uintptr
	half   [2][]byte
	event  [2]uintptr
	busy   [2]bool // copies were queued since the last wait
	turn   int
	used   int
	down   []byte
}

func newStaging(d *driver, stream uintptr) (*staging, error) {
	s := &staging{d: d, stream: stream}
	var err error
	for i := range s.half {
		if s.half[i], err = d.pinned(stagingHalf); err != nil {
			return s, err
		}
		if s.event[i], err = d.event(); err != nil {
			return s, err
		}
	}
	s.down, err = d.pinned(stagingHalf)
	return s, err
}

// room is n bytes, at most stagingHalf, that no copy reads any more.
func (s *staging) room(n int) ([]byte, error) {
	if s.used+n > stagingHalf {
		if err := s.d.record(s.event[s.turn], s.stream); err != nil {
			return nil, err
		}
		s.busy[s.turn] = true
		s.turn, s.used = 1-s.turn, 0
		if s.busy[s.turn] {
			s.busy[s.turn] = false
			if err := s.d.waitEvent(s.event[s.turn]); err != nil {
				return nil, err
			}
		}
	}
	b := s.half[s.turn][s.used : s.used+n]
	s.used += n
	return b, nil
}

func (s *staging) upload(dst uintptr, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), stagingHalf)
		b, err := s.room(n)
		if err != nil {
			return err
		}
		copy(b, src[:n])
		if err := s.d.toDevice(dst, b, s.stream); err != nil {
			return err
		}
		dst, src = dst+uintptr(n), src[n:]
	}
	return nil
}

// download waits for everything that was queued before it.
func (s *staging) download(dst []byte, src uintptr) error {
	for len(dst) > 0 {
		n := min(len(dst), stagingHalf)
		if err := s.d.toHost(s.down[:n], src, s.stream); err != nil {
			return err
		}
		if err := s.d.wait(s.stream); err != nil {
			return err
		}
		copy(dst[:n], s.down)
		dst, src = dst[n:], src+uintptr(n)
	}
	return nil
}

func (s *staging) close() (err error) {
	for i := range s.half {
		if s.event[i] != 0 {
			err = first(err, s.d.endEvent(s.event[i]))
		}
		if s.half[i] != nil {
			err = first(err, s.d.unpin(s.half[i]))
		}
	}
	if s.down != nil {
		err = first(err, s.d.unpin(s.down))
	}
	return err
}

// first is the first error of two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
