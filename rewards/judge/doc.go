// Package judge asks vision-language models what they think of a picture: what is asked, how the
// answer is read, and how comparisons of pairs become numbers.
//
// Start with prompts.go, the questions of published systems word for word, and points.go, which
// reads marks out of 5; axes.go, edits.go, winrate.go and flex.go are the other forms. chat.go
// writes requests of OpenAI-compatible servers; reward.go is the reward, deepeyes.go that of
// answers to questions.
//
// An answer that cannot be read is missing here. Upstreams train on a 0, on the batch's mean, or
// lose the batch; the cards say which.
package judge
