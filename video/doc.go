// Package video is clips: frames of one size and how fast they follow each other, and the
// files that hold them.
//
//	c, err := video.Open("clip.gif", video.Limits{}) // or .png (APNG), .y4m, a folder of PNG files
//	err = video.WriteFile("clip.y4m", c)
//	few, err := c.Pick(video.Uniform(len(c.Frames), 8))
//
// Start with Clip in clip.go. Frames are 8-bit RGB, row-major, channels last, so that frame i
// is vision.Image{c.Width, c.Height, c.Frames[i]} with no copy. Alpha is laid on black.
//
// GIF, APNG, Y4M and folders are read and written in plain Go, other files through the program
// ffmpeg where it is on PATH (ffmpeg.go).
//
// Files come from strangers: a reader adds up sizes from headers, and refuses before it takes memory.
package video
