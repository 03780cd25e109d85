// Package rewards says how good a sample is, as a number.
//
// Start with Combination in combine.go: several rewards of a batch become one, by weights,
// scales and gates. spec.go reads "name:weight" lists.
//
// A reward that failed is missing, and is written NaN: it is never 0, for then a sample would
// be trained against for what the judge did wrong. A number is better the higher it is; what
// it is measured in is its reward's own business, which is why weights have scales.
package rewards
