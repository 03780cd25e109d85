// Package tools is thinking with images: a model writes a tool call, receives a new picture, and continues.
//
//	p, _ := tools.Named("deepeyes")                  // how calls are written, refused and answered
//	s := &tools.State{Album: tools.NewAlbum(photo)}
//	reply := p.Step(s, text)                         // the calls of the model's text; never fails on any text
//	made, err := reply.Make(s.Album)                 // the new pictures, appended to the album
//	observation := reply.Observation()               // the model's next input, <|image_pad|> once a picture
//
// Start with protocol.go: one mechanism reads calls, plans them and answers. A protocol is one value in one file, and
// Protocols lists them: deepeyes.go, deepeyesv2.go, minio3.go, pixelreasoner.go, pyvision.go, vrag.go and verl.go are
// published systems with all their conventions; darkroom.go is our own, with every tool and strict JSON. Its tools
// are values, too: each is one file (zoom.go, rotate.go, flip.go, draw.go, grid.go, measure.go, read.go, frame.go),
// and Builtins (tool.go) lists them. A call that cannot be done is a *Refusal with the kind of mistake, and the model
// reads it. python.go treats texts and values as published code does.
//
// Code that a model writes is run by an Interpreter (pyvision.go); program has the one that an
// experiment's file configures.
//
// episode.go plays an episode and keeps its books: tokens as they were sampled, never tokenised
// again, masks, log-probabilities, pictures with hashes and rectangles, why it ended. Its
// Limits are those of the published loops.
//
// Coordinates: x before y, (0, 0) is the upper left corner. A Box has float64 corners in pixels of the picture at
// full size; a Rect has whole ones, rounded half to even as Pillow does. Frame (box.go) is the unit of the model's
// own numbers.
package tools
