package vlm

// A Span is a stretch of a rendered conversation, in bytes.
type Span struct{ From, To int }

// Marked is Render, and where the assistant's turns stand: from behind "<|im_start|>assistant" and
// its newline to the newline behind "<|im_end|>", which the model shall write as well. Spans are
// in the order of turns; a conversation without an assistant has none.
func (t Template) Marked(messages []Message, r Rendering) (text string, spans []Span, err error) {
	p := &page{number: r.Number}
	err = t.render(p, messages, r)
	return p.String(), p.spans, err
}

// answered notes that the assistant's turn, which began at a place, has ended.
func (p *page) answered(from int) {
	p.spans = append(p.spans, Span{from + len(turn+"assistant\n"), p.Len()})
}
