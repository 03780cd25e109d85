package prompts

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Pick are the numbers of an iteration's n prompts out of total: endless epochs, each shuffled by the key.
// Where an epoch ends inside an iteration, prompts of the next one that the iteration has already are put
// off: each changes places with the next prompt of that epoch that the iteration does not have.
//
// Invariants (tests): an epoch has every prompt once; an iteration has none twice, unless there are fewer
// than n; iterations are those of plain epochs, but for prompts that were put off.
func Pick(k rng.Key, iteration, n, total int) []int {
	if n > total {
		return From(k, iteration*n, n, total)
	}
	numbers := make([]int, n)
	epoch, order := -1, []int(nil)
	for i := range numbers {
		p := iteration*n + i
		if p/total != epoch {
			epoch = p / total
			order = epochOf(k, epoch, n, total)
		}
		numbers[i] = order[p%total]
	}
	return numbers
}

// epochOf is the order of an epoch. It depends on the one before where that ends inside an iteration, so
// orders are made from an epoch on that begins with an iteration.
func epochOf(k rng.Key, epoch, n, total int) []int {
	first := epoch
	for first > 0 && first*total%n != 0 && !(total >= 2*n && first < epoch) { // then the end of an epoch is that of a plain one
		first--
	}
	var order []int
	for e := first; e <= epoch; e++ {
		before := e * total % n // prompts that the iteration has when the epoch begins
		next := k.Iteration(e).Draw().Perm(total)
		if e > first && before > 0 {
			putOff(next, n-before, order[total-before:])
		}
		order = next
	}
	return order
}

// putOff moves those of the first head numbers that an iteration has to later places.
func putOff(order []int, head int, has []int) {
	later := head
	for i := range order[:head] {
		if !slices.Contains(has, order[i]) {
			continue
		}
		for slices.Contains(has, order[later]) {
			later++
		}
		order[i], order[later] = order[later], order[i]
		later++
	}
}

// From are n numbers of the same endless list in plain epochs, from a place on.
func From(k rng.Key, place, n, total int) []int {
	numbers := make([]int, n)
	epoch, perm := -1, []int(nil)
	for i := range numbers {
		p := place + i
		if p/total != epoch {
			epoch = p / total
			perm = k.Iteration(epoch).Draw().Perm(total)
		}
		numbers[i] = perm[p%total]
	}
	return numbers
}

// A Mix draws iterations of n prompts from several lists, each list with its share. The next prompt is of the list
// that is furthest behind its share, so the lists' numbers are never more than a few prompts off; which prompts of
// a list come is as in Pick: endless epochs, each shuffled by the list's key.
//
// Invariants (tests): an iteration is a function of the key and its number, whichever were asked for before; an
// iteration has no prompt twice; a list's epoch has every prompt once; numbers follow shares.
type Mix struct {
	n     int
	lists []mixed
	done  [][]int // iterations that are drawn; each is drawn after those before it
}

// mixed is a list on its way through its epochs.
type mixed struct {
	places []int // of its prompts
	share  float64
	key    rng.Key
	count  int   // prompts drawn of it
	order  []int // of the epoch under way: numbers in places
	now    []int // numbers in places that the iteration under way has
}

// A Share is a list's prompts, by their places among all prompts, and how many come of it beside others.
type Share struct {
	Places []int
	Share  float64
}

// NewMix draws iterations of n prompts. The lists must have n prompts together.
func NewMix(k rng.Key, n int, shares []Share) *Mix {
	m, sum := &Mix{n: n}, 0.0
	for _, s := range shares {
		sum += s.Share
	}
	for i, s := range shares {
		m.lists = append(m.lists, mixed{places: s.Places, share: s.Share / sum, key: k.Branch(i)})
	}
	return m
}

// Iteration is the i-th, from 0.
func (m *Mix) Iteration(i int) []int {
	for len(m.done) <= i {
		m.done = append(m.done, m.next())
	}
	return slices.Clone(m.done[i])
}

// At is the prompt at a place of the endless list that iterations are cut from.
func (m *Mix) At(place int) int { return m.Iteration(place / m.n)[place%m.n] }

// next draws the iteration after those that are drawn.
func (m *Mix) next() (all []int) {
	for i := range m.lists {
		m.lists[i].now = nil
	}
	for at := range m.n {
		l := m.behind(len(m.done)*m.n + at + 1)
		all = append(all, l.draw(m.n-at))
	}
	return all
}

// behind returns the list furthest behind its share of the drawn prompts, among those with a prompt that the iteration
// lacks.
func (m *Mix) behind(drawn int) *mixed {
	var most *mixed
	lack := 0.0
	for i := range m.lists {
		l := &m.lists[i]
		if len(l.now) == len(l.places) {
			continue
		}
		if d := float64(l.share*float64(drawn)) - float64(l.count); most == nil || d > lack {
			most, lack = l, d
		}
	}
	return most
}

// draw returns the list's next prompt, if the iteration has room for it.
func (l *mixed) draw(room int) int {
	total := len(l.places)
	if at := l.count % total; at == 0 {
		l.order = l.key.Iteration(l.count / total).Draw().Perm(total)
		putOff(l.order, min(room, total-len(l.now)), l.now)
	}
	number := l.order[l.count%total]
	l.count++
	l.now = append(l.now, number)
	return l.places[number]
}
