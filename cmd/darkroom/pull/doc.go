// Package pull fetches a model's folder from a hub that speaks Hugging Face's protocol.
//
//	report, err := pull.Run(ctx, pull.Options{Repo: "stabilityai/stable-diffusion-3.5-medium", Out: "models/sd35"})
//
// Start with Run in pull.go. list.go asks the hub for the files of a revision, choose.go keeps those that Darkroom
// reads, file.go fetches one file, and server.go decides on retries.
//
// The folder is whole or absent: files gather in OUT.part, and the rename to OUT comes after the last
// hash was compared. A pull that was interrupted continues where it ended, inside of files too.
//
// A hub's answers come from strangers. Paths must stay inside the folder, sizes and hashes must be
// those of the list, and the token is sent to the hub alone, never to a host that it redirects to.
package pull
