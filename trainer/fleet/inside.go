package fleet

import (
	"context"
	"slices"
	"sync"
)

// Inside carries jobs inside one process: for workers that are goroutines, and for tests, which make it lose
// messages.
type Inside struct {
	mu        sync.Mutex
	queue     [2][]Hash // urgent jobs, and the others
	jobs      map[Hash]Job
	kept      map[Hash]Event
	blobs     map[Hash][]byte
	links     map[string]*insideLink
	dismissed map[string]bool
	more      chan struct{} // closed when something was put on the queue
	box       *Mailbox
	// Loses reports whether a message is lost on the way; nil: nothing.
	Loses func(what string) bool
}

// NewInside carries nothing yet.
func NewInside() *Inside {
	return &Inside{jobs: map[Hash]Job{}, kept: map[Hash]Event{}, blobs: map[Hash][]byte{}, links: map[string]*insideLink{}, dismissed: map[string]bool{},
		more: make(chan struct{}), box: NewMailbox()}
}

func (h *Inside) loses(what string) bool { return h.Loses != nil && h.Loses(what) }

// Offer implements Hub.
func (h *Inside) Offer(_ context.Context, name Hash, j Job, urgent bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.loses("offer") {
		return nil
	}
	h.jobs[name] = j
	q := &h.queue[1]
	if urgent {
		q = &h.queue[0]
	}
	*q = append(*q, name)
	close(h.more)
	h.more = make(chan struct{})
	return nil
}

// Take implements Hub.
func (h *Inside) Take(context.Context) (*Job, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pop(), nil
}

func (h *Inside) pop() *Job {
	for i := range h.queue {
		for len(h.queue[i]) > 0 {
			j, known := h.jobs[h.queue[i][0]]
			h.queue[i] = h.queue[i][1:]
			if known { // and not withdrawn since
				return &j
			}
		}
	}
	return nil
}

// Withdraw implements Hub.
func (h *Inside) Withdraw(_ context.Context, name Hash) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, q := range h.queue {
		h.queue[i] = slices.DeleteFunc(q, func(q Hash) bool { return q == name })
	}
	delete(h.jobs, name)
	for _, l := range h.links {
		if stop := l.at[name]; stop != nil {
			delete(l.at, name)
			close(stop)
		}
	}
	return nil
}

// Dismiss implements Hub.
func (h *Inside) Dismiss(_ context.Context, worker string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dismissed[worker] = true
	close(h.more)
	h.more = make(chan struct{})
	return nil
}

// Wipe loses all that waits.
func (h *Inside) Wipe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = [2][]Hash{}
}

// Events implements Hub.
func (h *Inside) Events() <-chan Event { return h.box.Out() }

// Kept implements Hub.
func (h *Inside) Kept(_ context.Context, name Hash) (*Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.kept[name]; ok {
		return &e, nil
	}
	return nil, nil
}

// Forget is Hub's. The result's blob goes with it.
func (h *Inside) Forget(_ context.Context, name Hash) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.kept[name]; ok {
		delete(h.blobs, e.Payload)
		delete(h.kept, name)
	}
	return nil
}

// Put is Blobs'.
func (h *Inside) Put(_ context.Context, data []byte) (Blob, error) {
	b := BlobOf(data)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blobs[b.Hash] = data
	return b, nil
}

// Get is Blobs'.
func (h *Inside) Get(ctx context.Context, b Blob) ([]byte, error) {
	h.mu.Lock()
	data, ok := h.blobs[b.Hash]
	lost := h.loses("blob")
	h.mu.Unlock()
	if lost { // it does not come
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !ok {
		return nil, ErrNoBlob
	}
	return data, b.Holds(data)
}

// Drop is Blobs'.
func (h *Inside) Drop(_ context.Context, name Hash) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.blobs, name)
	return nil
}

// Close ends it.
func (h *Inside) Close() error {
	h.box.Close()
	return nil
}

// Link is a worker's end, by the worker's name.
func (h *Inside) Link(worker string) Link {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &insideLink{Inside: h, worker: worker, at: map[Hash]chan struct{}{}}
	h.links[worker] = l
	return l
}

// insideLink is a Link. The hub guards its job.
type insideLink struct {
	*Inside
	worker string
	at     map[Hash]chan struct{}
}

// Next implements Link.
func (l *insideLink) Next(ctx context.Context) (Job, error) {
	for {
		l.mu.Lock()
		more, dismissed := l.more, l.dismissed[l.worker]
		var j *Job
		if !dismissed {
			j = l.pop()
		}
		if j != nil {
			l.at[j.Name()] = make(chan struct{})
		}
		l.mu.Unlock()
		if dismissed {
			return Job{}, ErrDismissed
		}
		if j != nil {
			return *j, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Job{}, ctx.Err()
		case <-l.box.Closed():
			return Job{}, context.Canceled
		}
	}
}

// Withdrawn implements Link.
func (l *insideLink) Withdrawn(name Hash) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[name]
}

// Say implements Link.
func (l *insideLink) Send(_ context.Context, e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Worker = l.worker
	if e.Kind == Done {
		delete(l.at, e.Job)
		if _, there := l.kept[e.Job]; !there {
			l.kept[e.Job] = e
		}
	}
	if l.loses(string(e.Kind)) {
		return nil
	}
	l.box.Put(e)
	return nil
}

// Close is Link's; the hub stays.
func (l *insideLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.links[l.worker] == l {
		delete(l.links, l.worker)
	}
	return nil
}

// A Mailbox keeps events in their order until somebody takes them, however long nobody does. Of one worker it keeps
// some hundreds: further ones are lost, as messages on a wire are, and other workers' events come as before.
type Mailbox struct {
	mu     sync.Mutex
	said   []Event
	by     map[string]int // how many of said are whose
	more   chan struct{}
	out    chan Event
	closed chan struct{}
	once   sync.Once
}

// NewMailbox is an empty one.
func NewMailbox() *Mailbox {
	b := &Mailbox{by: map[string]int{}, more: make(chan struct{}, 1), out: make(chan Event), closed: make(chan struct{})}
	go b.pass()
	return b
}

// mostUnheard is how many events of a worker wait at most. A worker says a few in a second, and one a job.
const mostUnheard = 512

// Put adds an event.
func (b *Mailbox) Put(e Event) {
	b.mu.Lock()
	full := b.by[e.Worker] >= mostUnheard
	if !full {
		b.said = append(b.said, e)
		b.by[e.Worker]++
	}
	b.mu.Unlock()
	if full {
		return
	}
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// Out is where they are taken.
func (b *Mailbox) Out() <-chan Event { return b.out }

// Closed is closed when the mailbox is.
func (b *Mailbox) Closed() <-chan struct{} { return b.closed }

// Close drops events that nobody has taken.
func (b *Mailbox) Close() { b.once.Do(func() { close(b.closed) }) }

func (b *Mailbox) next() (e Event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) == 0 {
		b.said = nil // so that taken events are freed
		return e, false
	}
	e, b.said = b.said[0], b.said[1:]
	if b.by[e.Worker]--; b.by[e.Worker] == 0 {
		delete(b.by, e.Worker)
	}
	return e, true
}

func (b *Mailbox) pass() {
	for {
		e, ok := b.next()
		if !ok {
			select {
			case <-b.more:
				continue
			case <-b.closed:
				return
			}
		}
		select {
		case b.out <- e:
		case <-b.closed:
			return
		}
	}
}
