package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// section is a part of a page that a search finds.
type section struct {
	ID, Title string
	text      string
}

// longest is the size of a page whose sections are found by their headings alone: LOG.md would be most of the index.
const longest = 100_000

// indexBegins is the beginning of the search's file.
const indexBegins = "const index = "

// index is the search's file: pages, sections as [page, anchor, title, first words], and words with the sections that
// have them, each as its distance from the one before.
func (s *site) index() ([]byte, error) {
	type list = []any
	var pages, sections []list
	words := map[string][]int{}
	for n, p := range s.pages {
		pages = append(pages, list{p.name(), p.title})
		for _, part := range p.sections {
			text := part.text
			if len(p.markdown) > longest {
				text = ""
			}
			for _, w := range wordsIn(p.title + " " + part.Title + " " + text) {
				words[w] = append(words[w], len(sections))
			}
			sections = append(sections, list{n, part.ID, part.Title, beginning(text)})
		}
	}
	for _, at := range words {
		for i := len(at) - 1; i > 0; i-- {
			at[i] -= at[i-1]
		}
	}
	var out bytes.Buffer
	out.WriteString(indexBegins)
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"pages": pages, "sections": sections, "words": words}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// wordsIn are the different words of a text, in small letters. page.js splits a query in the same way.
func wordsIn(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.Sort(all)
	return slices.Compact(all)
}

// beginning is the first words of a section, for a result.
func beginning(text string) string {
	words := strings.Fields(text)
	n, length := 0, 0
	for n < len(words) && length < 110 {
		length += len(words[n]) + 1
		n++
	}
	return strings.Join(words[:n], " ")
}
