// Package faces finds faces in pictures and says whose they are: SCRFD's boxes and five points, the alignment of
// insightface, and the vectors of an ArcFace network, all of ONNX files.
package faces
