// Package vision is pictures: reading and writing them, numbers for networks,
// contact sheets and labels for people.
//
//	m, err := vision.Open("photo.jpg", vision.Limits{})           // sizes are checked before anything is allocated
//	x := vision.Floats(nil, m, vision.Signed, vision.ChannelsLast) // [H, W, 3] in -1..1
//	err = vision.WriteFile("out.png", m, vision.Setting{Key: "seed", Value: "7"})
//	sheet, err := vision.Sheet{Columns: 4, Captions: names}.Draw(pictures)
//
// Start with Image in image.go: 8-bit RGB, row-major, channels last. A Raster has one, three or four channels, for
// pictures that still carry alpha or are gray; RGB drops its alpha and Over lays it on a colour, and each consumer
// says which of them it means.
//
// Widths come before heights in calls, x before y; (0, 0) is the upper left pixel.
//
// Files come from strangers: decode.go and png.go believe no size that they read.
package vision
