package kernels

// Draw draws a token of each row of logits. A logit of a token that was seen is divided by Repetition (above 0) or
// multiplied (below); a banned token has no probability. Then, with m the largest logit,
//
//	d = (logit - m) / Temperature
//
// and of the tokens stay the TopK likeliest (all that tie with the last of them), of these the likeliest that hold
// TopP (from the least likely up, dropped while their sum is at most 1-TopP; of those that tie, those of smaller
// indices first), and of these all that have MinP of the likeliest one's probability. The distribution is the
// softmax of d over those that stay.
//
// Token is where Uniform falls in its running sum, in the order of the indices; without Uniform the likeliest, the
// first of those that tie. Where Given holds an index that is not below 0, it is that token. LogProb and Entropy are
// those of the distribution; a token that it rules out has LogProb -Inf.
type Draw struct {
	X           Mat     // [Rows, Cols], at most 2^20 columns
	Temperature float32 // 0 means 1
	TopK        int     // 0 means all
	TopP        float64 // 0 and 1 mean all
	MinP        float32 // 0 means all
	Repetition  float32 // 0 means 1
	Banned      Span    // i32 [Words(Cols)], optional: bit i%32 of word i/32 is token i's
	Seen        Span    // i32 [Rows, Words(Cols)], optional: the same of each row
	Uniform     Span    // f64 [Rows], from 0 to below 1; optional
	Given       Span    // i32 [Rows], optional
	Token       Span    // i32 [Rows]: or why there is none, DrawNotFinite or DrawNoToken
	LogProb     Span    // f32 [Rows]: 0 where there is no token
	Entropy     Span    // f32 [Rows], in nats: 0 where there is no token
}

// What Token holds of a row that has none.
const (
	DrawNotFinite = -1 // a logit that is not banned is NaN or +Inf
	DrawNoToken   = -2 // all are banned or -Inf
)

// MostDrawn is how many columns Draw takes.
const MostDrawn = 1 << 20

// Words is how many words of 32 bits a set of n tokens takes.
func Words(n int) int { return (n + 31) / 32 }
