package driver

import (
	"cmp"
	"slices"
)

// Ring is device memory that is filled on a stream of its own, ahead of the work that reads it. Its slots follow one
// another, each as large as its contents, and the oldest one that was released is overwritten first. Two events order
// a slot's two streams: work waits for the copy, and the next copy for the work that read the slot. The program waits
// for nothing.
type Ring struct {
	d      *Driver
	work   uintptr // the stream that reads slots
	copies uintptr // the stream that fills them
	memory uintptr
	bytes  int
	slots  []*Slot // by place; between them nothing was ever held
	next   int     // where the search for room begins: behind the slot that was taken last
	spare  []uintptr
}

// Slot is a part of a ring.
type Slot struct {
	of      any // the original of its bytes; nil once some were overwritten
	lo, hi  int
	holders int
	copied  uintptr // the event of its copy, 0 once work waits for it
	read    uintptr // the event of the last release, 0 where no work may read it any more
}

// Free reports whether nobody holds the slot.
func (s *Slot) Free() bool { return s.holders == 0 }

// NewRing is a ring in memory that is handed over by the stream work.
func NewRing(d *Driver, work, copies, memory uintptr, bytes int) (*Ring, error) {
	r := &Ring{d: d, work: work, copies: copies, memory: memory, bytes: bytes}
	// Queued work may still read the memory in its former use.
	former := &Slot{hi: bytes}
	r.slots = []*Slot{former}
	return r, r.record(&former.read, work)
}

// Bytes is the ring's size.
func (r *Ring) Bytes() int { return r.bytes }

// Idle reports whether nothing holds a slot.
func (r *Ring) Idle() bool {
	return !slices.ContainsFunc(r.slots, func(s *Slot) bool { return s.holders > 0 })
}

// At is the device address of a slot.
func (r *Ring) At(s *Slot) uintptr { return r.memory + uintptr(s.lo) }

// Find is the slot that has a copy of something whole, held from now on; nil if there is none.
func (r *Ring) Find(of any) *Slot {
	for _, s := range r.slots {
		if s.of == of {
			s.holders++
			return s
		}
	}
	return nil
}

// Fill is a slot of n bytes that fill queues a copy into, on a stream, when the work that read the slot's memory is
// done. It is nil where too much is held.
func (r *Ring) Fill(of any, n int, fill func(at, stream uintptr) error) (*Slot, error) {
	lo, ok := r.room(n)
	if !ok {
		return nil, nil
	}
	s := &Slot{of: of, lo: lo, hi: lo + n, holders: 1}
	if err := r.place(s); err != nil {
		return nil, err
	}
	if err := fill(r.At(s), r.copies); err != nil {
		return nil, err
	}
	return s, r.record(&s.copied, r.copies)
}

// room is a place for n bytes in which nothing is held: from next on, or else from the beginning.
func (r *Ring) room(n int) (lo int, ok bool) {
	for _, from := range []int{r.next, 0} {
		lo = from
		for _, s := range r.slots {
			if s.holders > 0 && s.hi > lo {
				if s.lo >= lo+n {
					break
				}
				lo = s.hi
			}
		}
		if lo+n <= r.bytes {
			return lo, true
		}
	}
	return 0, false
}

// place puts a slot over those that were released, when the work that read them is done. The rest of the last one
// is an empty slot.
func (r *Ring) place(s *Slot) error {
	kept := make([]*Slot, 0, len(r.slots)+2)
	put := false
	for _, o := range r.slots {
		if o.hi <= s.lo || o.lo >= s.hi {
			if o.lo >= s.hi && !put {
				kept, put = append(kept, s), true
			}
			kept = append(kept, o)
			continue
		}
		if o.read != 0 {
			if err := r.d.Follow(r.copies, o.read); err != nil {
				return err
			}
			r.spare, o.read = append(r.spare, o.read), 0
		}
		if o.copied != 0 { // released before work waited for it; copies are done in order
			r.spare, o.copied = append(r.spare, o.copied), 0
		}
		if o.lo < s.lo {
			kept = append(kept, &Slot{lo: o.lo, hi: s.lo})
		}
		if !put {
			kept, put = append(kept, s), true
		}
		if o.hi > s.hi {
			kept = append(kept, &Slot{lo: s.hi, hi: o.hi})
		}
	}
	if !put {
		kept = append(kept, s)
	}
	r.slots, r.next = kept, s.hi
	return nil
}

// Await lets work from now on wait for a slot's copy.
func (r *Ring) Await(s *Slot) error {
	if s.copied == 0 {
		return nil
	}
	err := r.d.Follow(r.work, s.copied)
	r.spare, s.copied = append(r.spare, s.copied), 0
	return err
}

// Release ends one holder's use of a slot with the work queued so far.
func (r *Ring) Release(s *Slot) error {
	s.holders--
	return r.record(&s.read, r.work)
}

// record notes the end of a stream's queue in an event, which is made or used again.
func (r *Ring) record(e *uintptr, stream uintptr) (err error) {
	if *e == 0 {
		if n := len(r.spare); n > 0 {
			*e, r.spare = r.spare[n-1], r.spare[:n-1]
		} else if *e, err = r.d.Event(); err != nil {
			return err
		}
	}
	return r.d.Record(*e, stream)
}

// Close waits for the copies and ends the events. The memory is the caller's again.
func (r *Ring) Close() error {
	err := r.d.Wait(r.copies)
	for _, s := range r.slots {
		for _, e := range []uintptr{s.read, s.copied} {
			if e != 0 {
				r.spare = append(r.spare, e)
			}
		}
	}
	for _, e := range r.spare {
		err = cmp.Or(err, r.d.EndEvent(e))
	}
	r.slots, r.spare = nil, nil
	return err
}
