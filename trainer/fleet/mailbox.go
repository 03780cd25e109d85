package fleet

import "sync"

// A Mailbox keeps events in their order until somebody takes them, however long nobody does. Of one worker it keeps
// some hundreds: what more it says is lost, as words are on a wire, and the others are heard as before.
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

// Close drops what nobody has taken.
func (b *Mailbox) Close() { b.once.Do(func() { close(b.closed) }) }

func (b *Mailbox) next() (e Event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) == 0 {
		b.said = nil // so that what was taken is let go of
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
