package nn

import (
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Frozen matrices in the host's memory, or in shares of the memory of a run's devices (Home). A device copies those
// that are elsewhere into a ring of its own, ahead of their products and beside its work (kernels.Offloader). It waits
// for no other device, whose work may be another.

// A Stock is the matrices of a run in such homes. Each lies there once, however many devices read it.
type Stock struct {
	devices []kernels.Offloader
	rings   []*autograd.Ring // of each device
	ranks   int
	here    bool // the devices' memory is the host's
	alone   bool // a device that can read matrices in its own memory alone

	lock   sync.Mutex
	pieces map[string]*piece
	shares []int                  // bytes that each device was given so far
	pools  []map[*tensor.Pool]int // of each device's networks, to whose limits its share counts, and their matrices
	bytes  int
}

// A piece is a matrix at its home.
type piece struct {
	*kernels.Stored
	key     string
	by      kernels.Offloader // the one that stored it
	share   int               // the device in whose memory it lies
	holders int
}

// NewStock is a stock for the devices of a run.
func NewStock(devices ...kernels.Backend) *Stock {
	s := &Stock{ranks: len(devices), pieces: map[string]*piece{}, shares: make([]int, len(devices)), pools: make([]map[*tensor.Pool]int, len(devices))}
	for i, be := range devices {
		s.pools[i] = map[*tensor.Pool]int{}
		on, ok := be.(kernels.Offloader)
		if !ok {
			s.alone = true
			return s
		}
		s.devices, s.rings = append(s.devices, on), append(s.rings, &autograd.Ring{Memory: steady{on}})
	}
	probe := devices[0].Alloc(1)
	s.here = probe.Host != nil
	devices[0].Free(probe)
	return s
}

// DryStock counts for a run of as many devices. apart says that their memory is not the host's.
func DryStock(dry kernels.Backend, ranks int, apart bool) *Stock {
	s := &Stock{ranks: ranks, here: !apart, pieces: map[string]*piece{}, rings: []*autograd.Ring{{}}}
	if apart {
		s.rings[0].Memory = &counted{on: dry}
	}
	return s
}

// Home is the home that a wish for one comes to: of one device, its own share is all, and on a CPU the host's memory is
// the device's. A device that copies no weights reads them in its own memory, or from the disk.
func (s *Stock) Home(wish Home) Home {
	if s == nil {
		return wish
	}
	if s.alone && wish != Disk || s.ranks == 1 && (wish == Ranks || wish == Host && s.here) {
		return Device
	}
	return wish
}

// Bytes is the size of all matrices in the stock.
func (s *Stock) Bytes() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.bytes
}

// param is a matrix of the stock, which is put there where no network of its name has done so.
func (s *Stock) param(d *away, shape []int) (*autograd.Param, error) {
	r := d.root
	if r.Pool.Dry() {
		return s.count(d, shape)
	}
	rank := 0
	for i, on := range s.devices {
		if kernels.Backend(on) == r.Pool.Backend() {
			rank = i
		}
	}
	on := s.devices[rank]
	p, err := s.put(d, on)
	if err != nil {
		return nil, err
	}
	o := &offloaded{stock: s, on: on, piece: p, bytes: p.Room()}
	if r.Home == Ranks {
		o.rank, o.pool = rank, r.Pool
		s.join(rank, r.Pool)
	}
	if own := p.Home.Peer == on || p.Buf != nil && p.Buf.Host != nil; own && p.Codes == nil {
		o.bytes = 0 // products read it where it lies
	}
	return autograd.NewStreamed(d.e.name, shape, d.conv, r.Pool, s.rings[rank], o), nil
}

// put finds a matrix, or brings it to its home.
func (s *Stock) put(d *away, on kernels.Offloader) (p *piece, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	key := fmt.Sprint(d.root.Called, "\n", d.e.name, "\n", d.root.Math)
	if p = s.pieces[key]; p != nil && d.root.Called != "" {
		p.holders++
		return p, nil
	}
	home, least := kernels.Home{}, 0
	if d.root.Home == Ranks {
		for i, n := range s.shares {
			if n < s.shares[least] {
				least = i
			}
		}
		home.Peer = s.devices[least]
	}
	defer kernels.Recover(&err)
	stored, err := d.store(on, home)
	if err != nil {
		return nil, fmt.Errorf("bringing %s to its home (model.home = %q): %w", d.e.name, d.root.Home, err)
	}
	p = &piece{Stored: stored, key: key, by: on, share: least, holders: 1}
	s.bytes += stored.Size()
	s.share(least, stored.Size())
	if d.root.Called != "" {
		s.pieces[key] = p
	}
	return p, nil
}

// share counts bytes of a device's share.
func (s *Stock) share(device, bytes int) {
	s.shares[device] += bytes
	for pool := range s.pools[device] {
		pool.Others(bytes)
	}
}

// join lets a device's share count to the limit of a pool for a matrix of its networks.
func (s *Stock) join(device int, pool *tensor.Pool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.pools[device][pool]++; s.pools[device][pool] == 1 {
		pool.Others(s.shares[device])
	}
}

// part is the end of join: after a pool's last matrix the share no longer counts to its limit.
func (s *Stock) part(device int, pool *tensor.Pool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.pools[device][pool]--; s.pools[device][pool] == 0 {
		pool.Others(-s.shares[device])
		delete(s.pools[device], pool)
	}
}

// store brings the matrix to a home: as codes, where those stand for values of the type that products read, or in the
// form that they read.
func (d *away) store(on kernels.Offloader, home kernels.Home) (*kernels.Stored, error) {
	src, err := d.read()
	if err != nil {
		return nil, err
	}
	defer d.drop()
	w := kernels.Packed{Math: d.root.Math, N: d.stored[0], K: product(d.stored[1:])}
	if src.codes != nil && d.plain() && src.dtype == stocked[w.DType()] {
		return on.StoreCodes(*src.codes, w, w.DType(), home)
	}
	packed, err := d.pack(src)
	if err != nil {
		return nil, err
	}
	d.root.Pool.Yield(packed)
	return on.Store(packed, home)
}

// stocked are types of products' operands as files name them.
var stocked = map[kernels.DType]safetensors.DType{kernels.BF16: safetensors.BF16, kernels.F32: safetensors.F32}

// plain reports whether products read the matrix with its axes as they are stored.
func (d *away) plain() bool { return d.k == matrix && d.conv.KH == 0 }

// leave ends the use of a piece. The last one's frees it.
func (s *Stock) leave(p *piece) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if p.holders--; p.holders > 0 {
		return
	}
	if s.pieces[p.key] == p {
		delete(s.pieces, p.key)
	}
	s.bytes -= p.Size()
	s.share(p.share, -p.Size())
	p.by.Discard(p.Stored)
}

// offloaded is a matrix of a stock as one device reads it.
type offloaded struct {
	stock  *Stock
	on     kernels.Offloader
	piece  *piece
	coming *kernels.Packed
	bytes  int
	rank   int          // of the device
	pool   *tensor.Pool // to whose limit the device's share counts; nil where there are no shares
}

func (o *offloaded) Ahead() bool {
	o.coming = o.on.Fetch(o.piece.Stored)
	return o.coming != nil
}

// Forget lets work wait for the copy, so that Sync covers it: nothing frees memory that is still read.
func (o *offloaded) Forget() {
	w := o.coming
	if o.coming = nil; w == nil {
		return
	}
	var lost error
	defer kernels.Recover(&lost)
	o.on.Await(w)
	o.on.Release(w)
}

func (o *offloaded) Take() *kernels.Packed {
	w := o.coming
	if o.coming = nil; w == nil {
		w = o.on.Fetch(o.piece.Stored)
	}
	if w != nil {
		o.on.Await(w)
	}
	return w
}

// Give and Close report no lost device: the next operation does.

func (o *offloaded) Give(w *kernels.Packed) {
	var lost error
	defer kernels.Recover(&lost)
	o.on.Release(w)
}

func (o *offloaded) Close() {
	var lost error
	defer kernels.Recover(&lost)
	o.on.Sync()
	o.stock.leave(o.piece)
	if o.pool != nil {
		o.stock.part(o.rank, o.pool)
	}
}

func (o *offloaded) Bytes() int { return o.bytes }

// steady is a device whose ring may be given back after the device was lost.
type steady struct{ on kernels.Offloader }

func (s steady) Reserve(bytes int) {
	if bytes == 0 {
		var lost error
		defer kernels.Recover(&lost)
	}
	s.on.Reserve(bytes)
}

// count is a matrix on a backend that counts: its share of a device's memory.
func (s *Stock) count(d *away, shape []int) (*autograd.Param, error) {
	be := d.root.Pool.Backend()
	o := &counted{on: be, whole: kernels.Packed{Math: d.root.Math, N: d.stored[0], K: product(d.stored[1:]), Conv: d.conv, Buf: &kernels.Buffer{}}}
	full := o.whole.N * o.whole.K * o.whole.DType().Size()
	size := full
	o.bytes = kernels.Room(full)
	h, compressed, err := d.root.header(d.e)
	if err != nil {
		return nil, err
	}
	if compressed && d.plain() && h.DType == stocked[o.whole.DType()] {
		size = h.Size
		o.bytes += kernels.Room(size)
	}
	s.bytes += size
	switch {
	case s.here && size == full:
		o.bytes = 0
	case s.here:
		o.full = full
	}
	if d.root.Home == Ranks {
		o.share = be.Alloc(size / s.ranks)
	}
	o.stock, o.size = s, size
	return autograd.NewStreamed(d.e.name, shape, d.conv, d.root.Pool, s.rings[0], o), nil
}

// counted is a matrix, or a ring, on a backend that counts.
type counted struct {
	on          kernels.Backend
	stock       *Stock
	whole       kernels.Packed
	share, room *kernels.Buffer
	bytes, size int
	full        int // bytes of the matrix where it is unpacked into memory of its own
}

func (c *counted) Ahead() bool {
	c.room = c.on.Alloc(c.full)
	return true
}

func (c *counted) Forget() { c.Reserve(0) }

func (c *counted) Take() *kernels.Packed {
	if c.room == nil {
		c.Ahead()
	}
	return &c.whole
}

func (c *counted) Give(*kernels.Packed) { c.Reserve(0) }

func (c *counted) Close() {
	c.Reserve(0)
	if c.share != nil {
		c.on.Free(c.share)
	}
	c.stock.bytes -= c.size
}

func (c *counted) Bytes() int { return c.bytes }

// Reserve counts a ring in the place of a former one.
func (c *counted) Reserve(bytes int) {
	if c.room != nil {
		c.on.Free(c.room)
		c.room = nil
	}
	if bytes > 0 {
		c.room = c.on.Alloc(bytes)
	}
}
