// Package ppocr reads texts in pictures by the networks of PP-OCR, as ONNX files: a detector, a classifier of lines
// that are upside down, and a recogniser.
//
//	r, err := ppocr.Open("models/ppocr", ppocr.Rapid(), onnx.Options{Backend: backend})
//	lines, err := r.Read(ctx, picture)
//
// Start with Read (reader.go). db.go has the boxes of the detector's map, polygon.go their geometry, crop.go the
// lines' pictures, ctc.go the characters. Boxes are corners from the upper left clockwise, in pixels.
package ppocr
