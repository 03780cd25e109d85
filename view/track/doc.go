// Package track exports a run's folder to TensorBoard, W&B, trackio, MLflow and tables. An export is a function of the
// folder, so an old run can be exported, and a run that is under way is followed by a process of its own. The training
// loop knows nothing of it.
//
//	x, err := track.Open(track.Options{Run: "runs/quickstart", As: "tensorboard"})
//	n, err := x.Export(ctx)
//
// Start with Entry in export.go, the content of one moment of a run; export.go also has the interface of targets and
// the scalars' names. source.go makes entries of the folder's files, and each target has a file.
//
// Invariants (tests): an export that is repeated leaves the same bytes; an export that was killed, or that
// followed the run, ends with the bytes of one that was made at once; every entry is written exactly once.
package track
