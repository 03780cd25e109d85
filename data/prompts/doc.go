// Package prompts reads lists of prompts, with the data that rewards need beside each.
//
//	list, err := prompts.Open("prompts.jsonl")
//	numbers := prompts.Pick(key, iteration, 4, len(list))
//
// Start with Open; Lists reads each list once, and scan.go reads plain records quickly. Files are .txt
// (a line a prompt), .jsonl ({"prompt": ..., "meta": {...}}) and .csv (a column "prompt"; the others are its meta).
// parquet.go has .parquet files, prompts.go folders of the hub's data sets, whose columns are meta, and whose pictures
// are read when they are asked for. "image" names the pictures that one is made of (pictures.go).
//
// embed:scenes and embed:scenes-heldout are captions of scenes that the embedded models know, embed:edits and
// embed:edits-heldout edits of drawn scenes, embed:edits-in-place those of them that move nothing (scenes.go),
// embed:animate and embed:animate-heldout pictures whose things are to move, embed:animate64 and
// embed:animate64-heldout larger ones whose things may turn (clips.go),
// embed:zoom and embed:zoom-heldout questions about tables of cards (pictures.go), embed:zoom-solved those of
// embed:zoom with the call that looks at the card (meta.solution); questions may be about clips (clips.go).
// No training saw held-out prompts.
package prompts
