// Package faces finds faces in pictures and says whose they are: SCRFD's boxes and five points of an ONNX file, the
// alignment of insightface, and the vectors of an ArcFace network: an ONNX file, or an IResNet of safetensors.
//
//	e, err := faces.OpenIResNet("iresnet50", device)
//	vector, err := e.Network().Vector(ctx, picture, face.Points)
//	grads, err := e.PullPixels(ctx, aligned, at)
package faces
