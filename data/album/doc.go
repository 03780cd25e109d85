// Package album reads pictures from files, which objectives train on in place of samples: pairs with a preference
// (offline DPO), or pictures with a score (fine-tuning, regression by a reward).
//
//	pages, err := album.Open("pairs.jsonl")
//	picture, err := pages[0].Picture(1, 512, 512)
//
// Start with Open in album.go. A line of a .jsonl file is a pair or a picture,
//
//	{"prompt": "...", "a": "a.png", "b": "b.png", "better": "a"}
//	{"prompt": "...", "image": "a.png", "score": 0.7}
//
// whose files lie in the file's folder or below it; "better" may be "tie", and a score that is not
// there is 1. A folder has a caption in NAME.txt beside each NAME.png (or .jpg, .webp).
// embed:scene-pairs are drawn scenes, and the same with one attribute wrong.
package album
