// Package vlm is vision-language models of the Qwen family: Qwen2-VL, Qwen2.5-VL, Qwen3.5, Qwen3-VL-MoE and
// Qwen3-VL, from pictures and conversations to the probabilities of the next token.
//
//	p, err := vlm.OpenProcessor(dir)
//	patches, err := p.Apply(picture)                                    // values and grids
//	text, err := vlm.Qwen25VL.Render(messages, vlm.Rendering{Generate: true})
//	ids := tokens.Encode(text).IDs                                      // vision/tokenizer
//	ids, kinds, err := marks.Expand(ids, patches.Grids, nil, p.Merge)   // a token a merged cell
//
//	d := m.NewDecoder(pool, options, 8)                                 // eight rows
//	logits, err := d.Extend(0, vlm.Stretch{IDs: ids, Pictures: patches})
//	logits, err := d.Step(rows, next)                                   // a token each
//	err = d.Next(rows, next); drawn, err := d.Draw(vlm.Sampling{...})    // the same, and tokens drawn where logits are
//
//	hidden, err := m.Hidden(tape, whole)                                // for the trainer
//	logps := m.LogProbs(tape, hidden, places, tokens, 1)                // d.LogProbs' bits
//
// A picture is resized and cut into patches (processor.go) that are listed block by block (positions.go) and go
// through the tower (tower.go); a conversation becomes a text (chat.go, chatfile.go), ids, and three indices a token
// (positions.go). Start with Grid in processor.go, which all of them share: frames, rows, columns in patches; then
// Stretch in embed.go, which the networks read: model.go whole, for the trainer, and decoder.go bit by bit, with kept
// keys and values. Widths come before heights in calls, as in package vision; rows come before
// columns in grids. Values are [1, tokens, width].
//
// Settings, templates and messages come from strangers: sizes are checked before anything is
// allocated.
package vlm
