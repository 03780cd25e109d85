package fleet

import "sync"

// A Mailbox keeps events in their order until somebody takes them, however long nobody does.
type Mailbox struct {
	mu     sync.Mutex
	said   []Event
	more   chan struct{}
	out    chan Event
	closed chan struct{}
	once   sync.Once
}

// NewMailbox is an empty one.
func NewMailbox() *Mailbox {
	b := &Mailbox{more: make(chan struct{}, 1), out: make(chan Event), closed: make(chan struct{})}
	go b.pass()
	return b
}

// Put adds an event.
func (b *Mailbox) Put(e Event) {
	b.mu.Lock()
	b.said = append(b.said, e)
	b.mu.Unlock()
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
