package tokenizer

import (
	"container/heap"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is byte-pair encoding (Sennrich et al., 2016): a word begins as its characters, and
// the adjacent pair that was learned first is merged, again and again.
//
// Invariant (tests): the heap of pairs agrees with a search for the best pair each time.
type bpe struct {
	ids        map[string]int32
	texts      map[int32]string
	ranks      map[[2]int32]merge
	unknown    int32 // -1: unknown pieces are dropped
	suffix     string
	prefix     string
	bytes      bool // unknown characters become <0x..> pieces
	ignoreRank bool // a word that is a piece is one
	fuse       bool // adjacent unknowns become one
}

type merge struct{ rank, id int32 }

func (m *bpe) id(piece string) (int32, bool) { id, ok := m.ids[piece]; return id, ok }
func (m *bpe) piece(id int32) (string, bool) { s, ok := m.texts[id]; return s, ok }
func (m *bpe) size() int                     { return len(m.ids) }

// learn fills the ranks.
func (m *bpe) learn(merges [][2]string) error {
	m.ranks = make(map[[2]int32]merge, len(merges))
	for i, pair := range merges {
		a, okA := m.ids[pair[0]]
		b, okB := m.ids[pair[1]]
		joined := pair[0] + pair[1][min(len(m.prefix), len(pair[1])):]
		c, okC := m.ids[joined]
		if !okA || !okB || !okC {
			return fmt.Errorf("merge %d of %.40q and %.40q: the vocabulary lacks one of them or %.40q", i, pair[0], pair[1], joined)
		}
		m.ranks[[2]int32{a, b}] = merge{int32(i), c}
	}
	return nil
}

// symbol is a piece of a word while it is merged; a list, since merges take symbols out.
type symbol struct {
	id         int32
	prev, next int
	gone       bool
}

// candidate is a pair that could be merged.
type candidate struct {
	rank, id    int32
	left, right int
	pair        [2]int32
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	if c[i].rank != c[j].rank {
		return c[i].rank < c[j].rank
	}
	return c[i].left < c[j].left
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

func (m *bpe) pieces(word string, out []Piece) []Piece {
	if m.ignoreRank {
		if id, ok := m.ids[word]; ok {
			return append(out, Piece{word, id})
		}
	}
	symbols := m.characters(word)
	var queue candidates
	try := func(left int) {
		if left < 0 || symbols[left].next < 0 {
			return
		}
		right := symbols[left].next
		pair := [2]int32{symbols[left].id, symbols[right].id}
		if found, ok := m.ranks[pair]; ok {
			heap.Push(&queue, candidate{found.rank, found.id, left, right, pair})
		}
	}
	for i := range symbols {
		try(i)
	}
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		l, r := &symbols[c.left], &symbols[c.right]
		if l.gone || r.gone || l.next != c.right || l.id != c.pair[0] || r.id != c.pair[1] {
			continue // one of them was merged meanwhile
		}
		l.id, l.next, r.gone = c.id, r.next, true
		if r.next >= 0 {
			symbols[r.next].prev = c.left
		}
		try(l.prev)
		try(c.left)
	}
	for i := 0; i >= 0 && len(symbols) > 0; i = symbols[i].next {
		out = append(out, Piece{m.texts[symbols[i].id], symbols[i].id})
	}
	return out
}

// characters are the symbols that a word begins as.
func (m *bpe) characters(word string) []symbol {
	var symbols []symbol
	add := func(id int32) {
		i := len(symbols)
		if i > 0 {
			symbols[i-1].next = i
		}
		symbols = append(symbols, symbol{id: id, prev: i - 1, next: -1})
	}
	for at := 0; at < len(word); {
		_, n := utf8.DecodeRuneInString(word[at:])
		text := word[at : at+n]
		c := text
		if at > 0 {
			c = m.prefix + c
		}
		if at+n == len(word) {
			c += m.suffix
		}
		at += n
		if id, ok := m.ids[c]; ok {
			add(id)
			continue
		}
		if m.bytes && m.fallback(text, add) {
			continue
		}
		if m.unknown >= 0 && !(m.fuse && len(symbols) > 0 && symbols[len(symbols)-1].id == m.unknown) {
			add(m.unknown)
		}
	}
	return symbols
}

// fallback adds a character's bytes, if the vocabulary has all of them.
func (m *bpe) fallback(text string, add func(int32)) bool {
	ids, ok := bytePieces(text, m.ids)
	for _, id := range ids {
		add(id)
	}
	return ok
}

// bytePieces are the ids of <0x..> for every byte.
func bytePieces(text string, vocabulary map[string]int32) ([]int32, bool) {
	var ids []int32
	for i := range len(text) {
		id, ok := vocabulary[fmt.Sprintf("<0x%02X>", text[i])]
		if !ok {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// Byte-level models write bytes as printable characters (GPT-2): those that are printable
// stand for themselves, the others for 256, 257, ... in order.

var byteRunes, runeBytes = byteAlphabet()

func byteAlphabet() (runes [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		runes[b], bytes[r] = r, byte(b)
	}
	return runes, bytes
}

func toByteLevel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// fromByteLevel is the bytes of a token; one that has other characters is as it is.
func fromByteLevel(token string) []byte {
	var out []byte
	for _, r := range token {
		b, ok := runeBytes[r]
		if !ok {
			return []byte(token)
		}
		out = append(out, b)
	}
	return out
}
