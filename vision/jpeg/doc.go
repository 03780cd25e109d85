// Package jpeg writes JPEG files byte for byte as libjpeg and Pillow do with their defaults:
// 4:2:0, the standard Huffman tables, the accurate integer transform, a JFIF header.
//
// Why not the standard library's encoder: published compressibility rewards are the size of
// Pillow's file, and the standard library's is 4 % smaller to 8 % larger, unevenly over
// pictures. A reward that differs by the picture is another reward.
//
// Start with Encode in encode.go. Pictures are RGB, 8 bits, row-major, channels last.
package jpeg
