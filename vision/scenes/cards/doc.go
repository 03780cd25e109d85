// Package cards draws tables with coloured cards, each with a small digit among blots of the
// same ink. A table is Side pixels a side: a model that is shown it made smaller sees the cards
// and their colours, and no digit. The question "which digit is on the red card?" needs a crop. Two lamps
// light the table, so that each part of it looks like where it lies.
//
//	t := cards.Random(rng.New(7).With("table"))
//	m := t.Draw()                     // vision.Image
//	t.Question(0), t.Cards[0].Digit   // and the box that a crop must show
//
// Start with cards.go. Boxes are whole pixels of the picture at full size.
package cards
