package answers

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/rewards/tables"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: a document as text (HunyuanOCR, parsing.py). Both texts lose white space, marks and much of LaTeX; text is
// 1 - Levenshtein's distance / the longer. Below 0.5 the score is 0, above 0.99 it is 1. Where the truth has tables,
// the reply must have as many; each takes the most alike of the truth's that are left (difflib), and
//
//	0.5 text + 0.25 mean TEDS + 0.25 mean TEDS of the structure
//
// which is 0 below 0.5, and where one table has a TEDS below 0.4, or a structure below 0.5. A reply more than twice as
// long as the truth that ends in ten equal pieces is 0. Tables lose their spaces, which joins tags and their spans:
// <tdcolspan="2">, as upstream does. Invariants (tests): recorded values of upstream.

// latex is LaTeX of upstream, in its order, and its replacement.
var latex = strings.Fields(`
\longleftrightarrow=⟷ \Longleftrightarrow=⟺ \rightleftharpoons=⇌ \bigtriangledown=▽ \textcircled1=① \textcircled8=⑧ \textcircled7=⑦
\textcircled6=⑥ \Leftrightarrow=⇔ \textcircled3=③ \textcircled2=② \beginaligned= \textcircled5=⑤ \leftrightarrow=↔
\Longrightarrow=⟹ \longrightarrow=⟶ \textcircled9=⑨ \textcircled4=④ \longleftarrow=⟵ \Longleftarrow=⟸ \bigtriangleup=△
\endaligned= \beginarray= \triangledown=▽ \Updownarrow=⇕ \updownarrow=↕ \endarray=
\rightarrow=→ \Rightarrow=⇒ \leftarrow=← \downarrow=↓ \Downarrow=⇓
\backslash=\ \Leftarrow=⇐ \therefore=∴ \bigotimes=⨂ \parallel=∥ \geqslant=≥ \leqslant=≤
\subseteq=⊆ \supseteq=⊇ \bigwedge=⋀ \bigoplus=⨁ \emptyset=∅ \triangle=△
\searrow=↘ \because=∵ \Omicron=Ο \nwarrow=↖ \nearrow=↗ \Uparrow=⇑ \Upsilon=Υ
\uparrow=↑ \swarrow=↙ \omicron=ο \epsilon=ε \Epsilon=Ε \upsilon=υ \bigstar=★
\bigodot=⨀ \bigcirc=◯ \partial=∂ \bumpeq=\ \propto=∝ \lambda=λ \approx=≈
\subset=⊂ \bullet=∙ \Lambda=Λ \otimes=⊗ \ominus=⊖ \supset=⊃ \forall=∀
\exists=∃ \arcsin=arcsin \bigvee=⋁ \arccos=arccos \bigcup=⋃ \arctan=arctan \arccot=arccot
\times=× \prime=' \sigma=σ \right= \kappa=κ \vdots=⋮ \oplus=⊕
\theta=θ \delta=δ \gamma=γ \alpha=α \Omega=Ω \Sigma=Σ \Alpha=Α
\Gamma=Γ \Delta=Δ \Kappa=Κ \Theta=Θ \wedge=∧ \omega=ω \simeq=≃
\angle=∠ \nabla=∇ \ddots=⋱ \cdots=⋯ \infty=∞ \prod=∏ \beta=β
\perp=⊥ \left= \sqrt=√ \zeta=ζ \dots=… \Zeta=Ζ \circ=°
\oint=∮ \iota=ι \Beta=Β \star=⋆ \cdot=⋅ \Iota=Ι \odot=⊙
\surd=√ \gets=← \Tau=Τ \mid=∣ \Psi=Ψ \Chi=Χ \Phi=Φ
\Rho=Ρ \log=log \Eta=Η \lim=lim \cot=cot \eta=η \bot=⊥
\sec=sec \csc=csc \tan=tan \vee=∨ \cup=∪ \cap=∩ \ast=∗
\div=÷ \cos=cos \sin=sin \Box=□ \psi=ψ \chi=χ \phi=φ
\sim=∼ \tau=τ \rho=ρ \min=min \max=max \int=∫ \sum=∑
\lg=lg \in=∈ \Mu=Μ \mp=∓ \le=≤ \ln=ln \to=→
\ni=∋ \ge=≥ \Nu=Ν \ll=≪ \gg=≫ \pm=± \pi=π
\xi=ξ \nu=ν \mu=μ \Pi=Π \Xi=Ξ \ne=≠ \&=&
\%=% \#=# \_=_ \cong=≅ \square=▱ \blacksquare=■
\textcircledA=Ⓐ \textcircledB=Ⓑ \textcircledC=Ⓒ \textcircledD=Ⓓ \textcircleda=ⓐ \textcircledb=ⓑ \textcircledc=ⓒ \textcircledd=ⓓ
`)

// latexGone are texts that are left out, in their order.
var latexGone = []string{"<|endoftext|>", `\overrightarrow`, `\mathrm`, `\overline`, `align="center"`, `\underline`, `\widehat`, `\operatorname`,
	`\begin{array}`, `\end{array}`, `\end{matrix}`, `\begin{matrix}`, `\begin{aligned}`, `\end{aligned}`, `\begin{pmatrix}`, `\end{pmatrix}`,
	`\displaystyle`, `\quad`, `\text{`, `\mathbf{`, "{l}", `\boxed`}

var (
	parsingMarks   = []*regexp.Regexp{regexp.MustCompile(`<pFig>.*?</pFig>`), regexp.MustCompile(`<hy-meta>.*?</hy-meta>`), regexp.MustCompile(`<quad>.*?</quad>`), regexp.MustCompile(`<pSeal>.*?</pSeal>`)}
	parsingPlace   = regexp.MustCompile(`\(` + pytext.SpaceClass + `*\p{Nd}+` + pytext.SpaceClass + `*,` + pytext.SpaceClass + `*\p{Nd}+` + pytext.SpaceClass + `*\)`)
	parsingTable   = regexp.MustCompile(`(?is)<table>.*?</table>`)
	parsingCaption = regexp.MustCompile(`(?is)<caption>.*?</caption>`)
	parsingSpace   = regexp.MustCompile(pytext.SpaceClass + `+`)
)

// parsed is a document as it is compared.
func parsed(text string) string {
	replace := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
	}
	replace("<|endoftext|>", "", "\n\n", "2", "\n", "", " ", "")
	for _, entry := range latex {
		from, to, _ := strings.Cut(entry, "=")
		replace(from, to)
	}
	if strings.Contains(text, `\{&`) {
		replace(`\{&`, "", "&", ";")
	}
	for _, mark := range parsingMarks { // one after the other, as upstream removes them
		text = mark.ReplaceAllString(text, "")
	}
	for _, gone := range latexGone {
		replace(gone, "")
	}
	replace(`\`, "", "$", "", "<pFig>", "1", "</pFig>", "", "，", ",", "<pseal>", "", "<quad>", "", "</quad>", "", "（", "(", "）", ")", " ", "", "<br>", "",
		"“", `"`, "”", `"`, "<caption>", "", "</caption>", "", "</pseal>", "", "....", "", "....", "", `align="center"`, "")
	return text
}

// repeats reports whether a text ends in ten equal pieces.
func repeats(text string) bool {
	letters := []rune(text)
	n := len(letters)
	for length := 2; length <= n/10; length++ {
		count := 0
		for i := n - length; i >= 0 && slices.Equal(letters[i:i+length], letters[n-length:]); i -= length {
			count++
		}
		if count >= 10 {
			return true
		}
	}
	return false
}

// Parsing judges a document.
func Parsing(reply, truth string) (rewards.Score, error) {
	if repeats(reply) && runes(reply) > 2*runes(truth) {
		return judged(0, "repeats", reply), nil
	}
	want, got := parsed(truth), parsingPlace.ReplaceAllString(parsed(reply), "")
	bare := func(s string) string { return pytext.Strip(strings.Trim(s, "2")) }
	want, got = bare(want), bare(got)
	text := 1.0
	if n := max(runes(want), runes(got)); n > 0 {
		text = 1 - float64(edits.Distance(want, got))/float64(n)
	}
	switch {
	case text < 0.5:
		return judged(0, "text", got), nil
	case text > 0.99:
		return judged(1, "text", got), nil
	case !strings.Contains(truth, "<table"):
		return judged(text, "text", got), nil
	}
	found, asked := parsingTable.FindAllString(reply, -1), parsingTable.FindAllString(truth, -1)
	if len(found) != len(asked) {
		return judged(0, "tables", reply), nil
	}
	if len(asked) == 0 {
		return rewards.Score{}, errors.New("meta.answer has the beginning of a table alone: <table> and </table> are needed")
	}
	whole, structure := 0.0, 0.0
	for i, j := range matchedTables(found, asked) {
		a, b := bareTable(found[i]), bareTable(asked[j])
		similar, err := tables.TEDS(a, b, false)
		if err != nil {
			return rewards.Score{}, err
		}
		shape, err := tables.TEDS(a, b, true)
		if err != nil {
			return rewards.Score{}, err
		}
		if similar < 0.4 || shape < 0.5 {
			return judged(0, "table", found[i]), nil
		}
		whole, structure = whole+similar, structure+shape
	}
	n := float64(len(asked))
	value := float64(0.5*text) + float64(0.25*(whole/n)) + float64(0.25*(structure/n))
	if value < 0.5 {
		value = 0
	}
	s := judged(value, "text", got)
	s.Parts = map[string]float64{"text": text, "teds": whole / n, "teds_structure": structure / n}
	return s, nil
}

// bareTable is a table without its caption, line ends and spaces.
func bareTable(t string) string {
	return "<html><body>" + pytext.Strip(strings.NewReplacer("\n", "", " ", "").Replace(parsingCaption.ReplaceAllString(t, ""))) + "</body></html>"
}

// matchedTables are, for each table, the place of the most alike one that no other has taken.
func matchedTables(found, asked []string) []int {
	bare := func(t string) string { return pytext.Lower(parsingSpace.ReplaceAllString(t, "")) }
	taken := make([]bool, len(asked))
	places := make([]int, len(found))
	for i, f := range found {
		best := -1.0
		for j, a := range asked {
			if taken[j] {
				continue
			}
			if r := edits.Matching(bare(f), bare(a)); r > best {
				best, places[i] = r, j
			}
		}
		taken[places[i]] = true
	}
	return places
}

// TEDS is the rule of a table alone; with Structure, of its rows, cells and spans.
type TEDS struct{ Structure bool }

// Rule judges a reply's first table beside the truth's.
func (t TEDS) Rule(reply, truth string) (rewards.Score, error) {
	if n, err := tables.Parse(truth, false); err != nil || n == nil {
		return rewards.Score{}, errors.Join(errors.New("meta.answer has no table"), err)
	}
	value, err := tables.TEDS(insideAnswer(reply), truth, t.Structure)
	if err != nil { // a broken table
		value = 0
	}
	return judged(value, "table", reply), nil
}
