package cuda

import (
	"cmp"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda/driver"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Weights that lie in pinned host memory or on another device, and are copied into a ring ahead of their products
// (kernels.Offloader). Copies have a stream of their own, which driver.Ring keeps in step with the backend's.

var _ kernels.Offloader = (*Backend)(nil)

// offload is empty until it is used.
type offload struct {
	copies  uintptr // their stream
	ring    *driver.Ring
	memory  uintptr // the ring's
	pins    *driver.Pins
	last    map[*kernels.Stored]fetched      // the last fetch of each, maybe overwritten since
	held    map[*kernels.Packed]*driver.Slot // of weights that are fetched and not released
	reached map[*Backend]bool                // peers whose memory was asked for
	waited  bool                             // the next kernel follows a copy
}

type fetched struct {
	slot *driver.Slot
	w    *kernels.Packed
}

// LimitPinned is the most pinned host memory that stored weights may take; of 0 bytes, as much as the host gives.
func (b *Backend) LimitPinned(bytes int) { b.pins().Limit = bytes }

// Pinned is how many bytes of host memory are pinned for weights.
func (b *Backend) Pinned() int { return b.pins().Held() }

func (b *Backend) pins() *driver.Pins {
	if b.offload.pins == nil {
		b.offload.pins = driver.NewPins(b.d)
	}
	return b.offload.pins
}

// Reserve takes the ring's memory.
func (b *Backend) Reserve(bytes int) {
	b.now("Reserve", func() (err error) {
		o := &b.offload
		if o.ring != nil {
			if !o.ring.Idle() {
				panic("cuda: Reserve while a weight is fetched")
			}
			if err := cmp.Or(o.ring.Close(), b.memory.Drop(o.memory)); err != nil {
				return err
			}
			o.ring, o.last, o.held = nil, nil, nil
		}
		if bytes == 0 {
			return nil
		}
		if o.copies == 0 {
			if o.copies, err = b.d.Stream(); err != nil {
				return err
			}
		}
		bytes = kernels.Room(bytes)
		if o.memory, err = b.memory.TakeAlone(bytes); err != nil {
			return err
		}
		o.last, o.held = map[*kernels.Stored]fetched{}, map[*kernels.Packed]*driver.Slot{}
		o.ring, err = driver.NewRing(b.d, b.stream, o.copies, o.memory, bytes)
		return err
	})
}

// Store copies a weight to its home, and waits for that.
func (b *Backend) Store(w *kernels.Packed, home kernels.Home) (s *kernels.Stored, err error) {
	defer kernels.Recover(&err)
	s = &kernels.Stored{Packed: *w, Home: home}
	switch peer, _ := home.Peer.(*Backend); {
	case home.Peer == nil:
		s.Buf = nil
		err = b.toHost(s, w.Buf)
	case peer == nil:
		return nil, b.noHome(home)
	case peer != b:
		s.Buf = peer.Alloc(w.Buf.Bytes)
		b.toPeer(peer, s.Buf, w.Buf)
	default:
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	b.Free(w.Buf)
	return s, nil
}

// StoreCodes puts the codes into pinned memory, or uploads them to the device that is their home.
func (b *Backend) StoreCodes(c kernels.Codes, w kernels.Packed, values kernels.DType, home kernels.Home) (s *kernels.Stored, err error) {
	defer kernels.Recover(&err)
	if err = ref.CheckCodes(&w, values); err != nil {
		return nil, err
	}
	memory := make([]byte, c.Size())
	c.Write(memory)
	s = &kernels.Stored{Packed: w, Home: home, Codes: c}
	switch peer, ok := home.Peer.(*Backend); {
	case home.Peer == nil:
		b.now("StoreCodes", func() error {
			err = b.pin(s, len(memory))
			return nil // the device is whole
		})
		for _, part := range s.Host {
			memory = memory[copy(part, memory):]
		}
		return s, err
	case !ok:
		return nil, b.noHome(home)
	default:
		s.Buf = peer.Alloc(len(memory))
		peer.Upload(kernels.Span{Buf: s.Buf, Len: len(memory), DType: kernels.U8}, memory)
		peer.Sync()
		return s, nil
	}
}

func (b *Backend) noHome(home kernels.Home) error {
	return fmt.Errorf("cuda:%d: a weight cannot be stored in the memory of %s: the home is host memory or another CUDA device",
		b.device.Index, home.Peer.Name())
}

// pin takes pinned memory for n bytes.
func (b *Backend) pin(s *kernels.Stored, n int) (err error) {
	if s.Host, err = b.pins().Take(n); err != nil {
		return fmt.Errorf("cuda:%d: %w\nhint: let fewer weights be in host memory, or others on the disk; free memory of the host, or raise a container's limit", b.device.Index, err)
	}
	return nil
}

func (b *Backend) toHost(s *kernels.Stored, buf *kernels.Buffer) (err error) {
	b.must("Store", func() error {
		if err = b.pin(s, buf.Bytes); err != nil {
			return nil // the device is whole
		}
		at := buf.Addr
		for _, part := range s.Host {
			if err := b.d.ToHost(part, at, b.stream); err != nil {
				return err
			}
			at += uintptr(len(part))
		}
		return b.d.Wait(b.stream)
	})
	return err
}

func (b *Backend) toPeer(peer *Backend, dst, src *kernels.Buffer) {
	peer.Sync() // work of its stream may still read the memory in its former use
	b.must("Store", func() error {
		return cmp.Or(b.d.FromPeer(dst.Addr, peer.context, src.Addr, b.context, src.Bytes, b.stream), b.d.Wait(b.stream))
	})
}

// Fetch begins a weight's copy into the ring, unless it lies there.
func (b *Backend) Fetch(s *kernels.Stored) (w *kernels.Packed) {
	own := s.Home.Peer == kernels.Offloader(b)
	if own && s.Codes == nil {
		return &s.Packed
	}
	n := s.Room()
	if own { // codes are read where they lie
		n -= kernels.Room(s.Size())
	}
	b.now("Fetch", func() error {
		o := &b.offload
		if o.ring == nil || n > o.ring.Bytes() {
			panic(fmt.Sprintf("cuda: Fetch of a weight of %d bytes into a ring that has no room for it: Reserve", n))
		}
		if slot := o.ring.Find(s); slot != nil {
			w = o.last[s].w
			o.held[w] = slot
			return nil
		}
		bytes := s.N * s.K * s.DType().Size()
		slot, err := o.ring.Fill(s, n, func(at, stream uintptr) error {
			switch {
			case s.Codes == nil:
				return b.bring(s, at, stream)
			case own:
				return b.inFull(s, s.Buf, 0, at)
			}
			behind := kernels.Room(bytes)
			return cmp.Or(b.bring(s, at+uintptr(behind), stream), b.inFull(s, &kernels.Buffer{Addr: at, Bytes: n}, behind, at))
		})
		if err != nil || slot == nil {
			return err
		}
		p := s.Packed
		p.Buf = &kernels.Buffer{Addr: o.ring.At(slot), Bytes: bytes}
		w = &p
		o.last[s], o.held[w] = fetched{slot, w}, slot
		return nil
	})
	return w
}

// inFull queues the kernel that writes a compressed weight, behind the copy of its codes.
func (b *Backend) inFull(s *kernels.Stored, codes *kernels.Buffer, from int, at uintptr) error {
	if s.N*s.K == 0 {
		return nil
	}
	args, blocks, shared := b.unpacking(s.Codes.In(codes, from, kernels.NewMat(spanAt(at, s.N*s.K, s.DType()), s.N, s.K)))
	return b.queueCopying("unpack", blocks, 256, shared, args)
}

// bring queues the copy of the bytes that are stored.
func (b *Backend) bring(s *kernels.Stored, at, stream uintptr) error {
	if peer, ok := s.Home.Peer.(*Backend); ok {
		b.reach(peer)
		return b.d.FromPeer(at, b.context, s.Buf.Addr, peer.context, s.Size(), stream)
	}
	for _, part := range s.Host {
		if err := b.d.ToDevice(at, part, stream); err != nil {
			return err
		}
		at += uintptr(len(part))
	}
	return nil
}

// reach asks once for the memory of a peer. Copies go through the host where it is refused.
func (b *Backend) reach(peer *Backend) {
	if b.offload.reached[peer] {
		return
	}
	if b.offload.reached == nil {
		b.offload.reached = map[*Backend]bool{}
	}
	b.offload.reached[peer] = true
	_ = b.d.Reach(b.dev, peer.dev, peer.context)
}

// Pull queues a copy from another device's memory (exchange.Puller).
func (b *Backend) Pull(dst kernels.Span, from kernels.Backend, src kernels.Span) bool {
	peer, ok := from.(*Backend)
	if !ok {
		return false
	}
	b.must("Pull", func() error {
		b.reach(peer)
		b.offload.waited = true
		return b.d.FromPeer(at(dst), b.context, at(src), peer.context, src.Len*src.DType.Size(), b.stream)
	})
	return true
}

// Await lets work wait for a weight's copy. The next kernel does not start beside the one before, which did not wait.
func (b *Backend) Await(w *kernels.Packed) {
	if slot := b.offload.held[w]; slot != nil {
		b.now("Await", func() error {
			b.offload.waited = true
			return b.offload.ring.Await(slot)
		})
	}
}

// Release ends the use of a weight with the work that is queued.
func (b *Backend) Release(w *kernels.Packed) {
	if slot := b.offload.held[w]; slot != nil {
		b.now("Release", func() error {
			if err := b.offload.ring.Release(slot); err != nil {
				return err
			}
			if slot.Free() {
				delete(b.offload.held, w)
			}
			return nil
		})
	}
}

// Discard frees the memory of the home.
func (b *Backend) Discard(s *kernels.Stored) {
	b.now("Discard", func() error {
		delete(b.offload.last, s)
		if b.offload.copies != 0 { // one may be under way whose weight nobody waited for
			if err := b.d.Wait(b.offload.copies); err != nil {
				return err
			}
		}
		parts := s.Host
		s.Host = nil
		return b.pins().Give(parts)
	})
	if s.Home.Peer != nil {
		s.Home.Peer.Free(s.Buf)
	}
}

// close ends the copies, and gives the pinned memory back; the ring's goes with the backend's.
func (o *offload) close(d *driver.Driver) (err error) {
	if o.ring != nil {
		err = o.ring.Close()
	}
	if o.copies != 0 {
		err = cmp.Or(err, d.EndStream(o.copies))
	}
	if o.pins != nil {
		err = cmp.Or(err, o.pins.Close())
	}
	return err
}
