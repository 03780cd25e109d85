// Package chat has a vision-language model with all that lies before its network: tokenizer, processor of pictures and
// videos, and template of conversations.
//
// Start with vlm.go: Open reads a folder, Read turns a text with pictures into what the network takes. prompt.go has
// what an episode is about, videos.go its videos, newtokens.go tokens that a vocabulary is given anew, folder.go what
// plan checks of a folder.
package chat
