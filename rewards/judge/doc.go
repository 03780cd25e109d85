// Package judge asks vision-language models for their opinion of a picture: it has the questions, reads the answers,
// and makes numbers of comparisons of pairs.
//
// Start with Form in judge.go, which is the reward; prompts.go has the questions of published systems word for word.
// pointwise.go reads marks, pairwise.go win rates, flex.go those by category; editing.go is of edits, question.go of
// a question of one's own, deepeyes.go and hunyuanocr.go of answers, vqascore.go of chances. chat.go writes requests of
// OpenAI-compatible servers.
//
// An answer that cannot be read is missing here. Upstreams train on a 0, on the batch's mean, or
// lose the batch; the cards say which.
package judge
