// Package edition writes copies of models' folders with other weights in them: every other file stays as it is, and
// files of weights are written anew, a file at a time, under their names and with their shards.
//
// Start with Copy. A Change says which tensors become others: Values puts numbers in the place of stored ones;
// an adapter's product is added by package peft.
package edition
