package driver

import "cmp"

// Copies go through pinned host memory, so that an upload returns when its bytes have been taken,
// not when they have arrived. Two halves take turns: one fills while the other's copies run, and
// an event says when a half may be written again.

// stagingHalf is the size of each half, and of the buffer that downloads go through.
const stagingHalf = 4 << 20

// Staging copies to and from a device.
type Staging struct {
	d      *Driver
	stream uintptr
	half   [2][]byte
	event  [2]uintptr
	busy   [2]bool // copies were queued since the last wait
	turn   int
	used   int
	down   []byte
}

// NewStaging takes pinned memory for copies on a stream. What it returns beside an error is closed, too.
func NewStaging(d *Driver, stream uintptr) (*Staging, error) {
	s := &Staging{d: d, stream: stream}
	var err error
	for i := range s.half {
		if s.half[i], err = d.Pinned(stagingHalf); err != nil {
			return s, err
		}
		if s.event[i], err = d.Event(); err != nil {
			return s, err
		}
	}
	s.down, err = d.Pinned(stagingHalf)
	return s, err
}

// room is n bytes, at most stagingHalf, that no copy reads any more.
func (s *Staging) room(n int) ([]byte, error) {
	if s.used+n > stagingHalf {
		if err := s.d.Record(s.event[s.turn], s.stream); err != nil {
			return nil, err
		}
		s.busy[s.turn] = true
		s.turn, s.used = 1-s.turn, 0
		if s.busy[s.turn] {
			s.busy[s.turn] = false
			if err := s.d.WaitEvent(s.event[s.turn]); err != nil {
				return nil, err
			}
		}
	}
	b := s.half[s.turn][s.used : s.used+n]
	s.used += n
	return b, nil
}

// Upload takes the bytes, and queues their copy.
func (s *Staging) Upload(dst uintptr, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), stagingHalf)
		b, err := s.room(n)
		if err != nil {
			return err
		}
		copy(b, src[:n])
		if err := s.d.ToDevice(dst, b, s.stream); err != nil {
			return err
		}
		dst, src = dst+uintptr(n), src[n:]
	}
	return nil
}

// Download waits for everything that was queued before it.
func (s *Staging) Download(dst []byte, src uintptr) error {
	for len(dst) > 0 {
		n := min(len(dst), stagingHalf)
		if err := s.d.ToHost(s.down[:n], src, s.stream); err != nil {
			return err
		}
		if err := s.d.Wait(s.stream); err != nil {
			return err
		}
		copy(dst[:n], s.down)
		dst, src = dst[n:], src+uintptr(n)
	}
	return nil
}

// Close ends the events and gives the host memory back; no copy may be under way.
func (s *Staging) Close() (err error) {
	for i := range s.half {
		if s.event[i] != 0 {
			err = cmp.Or(err, s.d.EndEvent(s.event[i]))
		}
		if s.half[i] != nil {
			err = cmp.Or(err, s.d.Unpin(s.half[i]))
		}
	}
	if s.down != nil {
		err = cmp.Or(err, s.d.Unpin(s.down))
	}
	return err
}
