package advantage

import "slices"

// A Rule is how an estimator makes advantages of rewards. Its value is below its formula. Files, lists, pages, checks
// and plans read this value. Rules lists all of them.
type Rule struct {
	Name    string
	Card    string   // a sentence: its description, and its source
	Paper   string   // whose it is
	Formula string   // the formula, in a line
	Cases   []string // recorded operations of published code that hold it

	Company      Company // whom a sample is compared with
	GroupMean    bool    // the comparison is with the mean of the group
	Alone        bool    // a sample without company has an advantage too
	Scaled       bool    // a deviation divides, or may
	Ends         bool    // +1 and -1 for the two of a pair
	Edges        bool    // credit goes to the edges of trees: decisions weigh the same, and not steps
	TokensOnly   bool    // single tokens are looked at, which pictures do not have
	Credit       string  // the required Credit.How; "": spread
	ValueHead    bool    // a head of values is learned beside the policy
	GreedyAnswer bool    // the likeliest answer to the same prompt is the baseline

	Options  any                         // a struct of the option structs that it reads beside Options; nil: none
	Set      func(s *Settings)           // the settings that the name implies; nil: none
	Takes    func(s Settings) [2]float64 // the rewards that it takes; others end the run; nil: any
	Members  func(s Settings) int        // how many samples of a group it needs; nil: any number
	Remember func(s Settings) *History   // its memory of earlier rewards; nil: none
	Check    func(s Settings, report func(key, problem, hint string))
	Words    func(s Settings) string // the plan's sentence; nil: the card, or the words of Options
	FirstOf  func(s Settings) int    // how often a prompt is compared with the batch before its own rewards; nil: never

	// Outcome compares outcomes, Samples the samples whose decisions share one; nil: as Options say.
	Outcome, Samples func(e Estimator, b Batch) (each, error)
}

// Company is whom a sample is compared with.
type Company int

// The kinds of company.
const (
	Nobody      Company = iota
	InGroup             // the samples of the same prompt
	InBatch             // all samples of the iteration
	WithHistory         // earlier samples of the same prompt
)

// Rules are all rules.
func Rules() []Rule {
	return []Rule{
		GroupRule,
		GlobalRule,
		BatchRule,
		DrRule,
		MaxGroupRule,
		LeaveOneOutRule,
		InverseRule,
		HistoryRule,
		TrackerRule,
		WinRateRule,
		ExponentialRule,
		BestRule,
		EndsRule,
		PassAtKRule,
		MaxAtKRule,
		BetaRule,
		DiversityRule,
		TreeRule,
		OPORule,
		GPGRule,
		ReinforceBaselineRule,
		ReinforceRule,
		ReMaxRule,
		GAERule,
	}
}

// RuleNamed is the rule of a name.
func RuleNamed(name string) (Rule, bool) {
	all := Rules()
	i := slices.IndexFunc(all, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{}, false
	}
	return all[i], true
}

// Compared reports whether Options alone say how outcomes are compared.
func (r Rule) Compared() bool { return r.Outcome == nil && r.Credit == "" && !r.Edges }

// Branches reports whether branches of one step can be compared by the rule, as groups.
func (r Rule) Branches() bool { return r.Company == InGroup && r.Compared() && r.Samples == nil }

// rewardOf is a rule that looks at the groups and rewards of a batch.
func rewardOf(compare func(e Estimator, b Batch, r []float64) ([]float64, error)) func(Estimator, Batch) (each, error) {
	return func(e Estimator, b Batch) (each, error) {
		return func(r []float64) ([]float64, error) { return compare(e, b, r) }, nil
	}
}
