// Package trained takes what a run has trained out of its folder: the adapter of a checkpoint, or the parameters of
// the model itself under the names that they have in the model's folder, the current ones or their moving average.
// Nothing is computed, and nothing of the run is changed.
//
//	r, err := trained.Open("runs/maps")         // the newest whole checkpoint; a checkpoint's folder is that one
//	dir, err := r.Adapter(trained.Current)      // a folder in PEFT's layout
//	w, err := r.Values(trained.EMA, dry, pool)  // or weights, as a source of tensors
//
// Start with Open in trained.go. values.go opens the model as the run did, on a backend that computes nothing, since a
// checkpoint numbers weights and does not name them.
package trained
