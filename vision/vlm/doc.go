// Package vlm is vision-language models of the Qwen-VL family: what stands before their
// networks.
//
//	p, err := vlm.OpenProcessor(dir)
//	patches, err := p.Apply(picture)                                    // values and grids
//	text, err := vlm.Qwen25VL.Render(messages, vlm.Rendering{Generate: true})
//	ids := tokens.Encode(text).IDs                                      // vision/tokenizer
//	ids, kinds, err := marks.Expand(ids, patches.Grids, nil, p.Merge)   // a token a merged cell
//	at, delta, err := rule.Positions(vlm.Sequence{Kinds: kinds, Pictures: patches.Grids})
//
// A picture is resized (sizes.go), cut into patches (processor.go) that are listed block by
// block (layout.go) and attended to window by window; a conversation becomes a text (chat.go,
// message.go), ids, and three indices a token (positions.go). Start with Grid in grid.go, which
// all of them share: frames, rows, columns in patches. Widths come before heights in calls, as
// in package vision; rows come before columns in grids.
//
// Settings, templates and messages come from strangers: sizes are checked before anything is
// allocated.
package vlm
