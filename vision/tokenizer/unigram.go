package tokenizer

import (
	"math"
	"unicode/utf8"
)

// unigram is a language model of pieces (Kudo, 2018): a word is cut where the sum of its
// pieces' log-probabilities is largest (Viterbi). A character that no piece covers costs
// ten more than the worst piece; neighbours of the kind become one unknown.
//
// Invariant (tests): of all ways to cut a word, none has a larger sum.
type unigram struct {
	ids     map[string]int32
	texts   []string
	scores  []float64
	longest int // bytes of a piece
	worst   float64
	unknown int32
	bytes   bool // unknown characters become <0x..> pieces
}

const unknownPenalty = 10

func newUnigram(texts []string, scores []float64, unknown int32, bytes bool) *unigram {
	m := &unigram{ids: make(map[string]int32, len(texts)), texts: texts, scores: scores, unknown: unknown, bytes: bytes, worst: math.Inf(1)}
	for i, s := range texts {
		m.ids[s] = int32(i)
		m.longest = max(m.longest, len(s))
		m.worst = min(m.worst, scores[i])
	}
	return m
}

func (m *unigram) id(piece string) (int32, bool) { id, ok := m.ids[piece]; return id, ok }
func (m *unigram) size() int                     { return len(m.texts) }
func (m *unigram) piece(id int32) (string, bool) {
	if id < 0 || int(id) >= len(m.texts) {
		return "", false
	}
	return m.texts[id], true
}

// node is the best way to reach a place in a word.
type node struct {
	score float64
	from  int
	id    int32
}

func (m *unigram) pieces(word string, out []Piece) []Piece {
	best := make([]node, len(word)+1)
	for i := 1; i <= len(word); i++ {
		best[i].from = -1
	}
	for at := 0; at < len(word); {
		_, n := utf8.DecodeRuneInString(word[at:])
		covered := false
		for end := at + n; end <= min(len(word), at+m.longest); {
			if id, ok := m.ids[word[at:end]]; ok {
				m.reach(best, at, end, m.scores[id], id)
				covered = covered || end == at+n
			}
			if end == len(word) {
				break
			}
			_, next := utf8.DecodeRuneInString(word[end:])
			end += next
		}
		if !covered {
			m.reach(best, at, at+n, m.worst-unknownPenalty, m.unknown)
		}
		at += n
	}
	return m.path(word, best, out)
}

func (m *unigram) reach(best []node, at, end int, score float64, id int32) {
	if s := best[at].score + score; best[end].from < 0 || s > best[end].score {
		best[end] = node{s, at, id}
	}
}

// path is the pieces of the best way, unknowns joined.
func (m *unigram) path(word string, best []node, out []Piece) []Piece {
	var back []Piece
	for end := len(word); end > 0; {
		b := best[end]
		text := word[b.from:end]
		if last := len(back) - 1; b.id == m.unknown && last >= 0 && back[last].ID == m.unknown {
			back[last].Text = text + back[last].Text
		} else {
			back = append(back, Piece{text, b.id})
		}
		end = b.from
	}
	for i := len(back) - 1; i >= 0; i-- {
		p := back[i]
		if p.ID == m.unknown && m.bytes {
			if ids, ok := bytePieces(p.Text, m.ids); ok {
				for _, id := range ids {
					out = append(out, Piece{m.texts[id], id})
				}
				continue
			}
		}
		out = append(out, p)
	}
	return out
}
