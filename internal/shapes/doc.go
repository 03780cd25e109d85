// Command shapes writes folders of published models' shapes with random weights: the settings that they were published
// with, every parameter by its name and size, in shards as on the hub. Time and memory of a real model are measured on
// them, without the model itself.
//
//	go run ./internal/shapes --as sd3.5-medium --out models/sd3.5-medium     # bf16, 7.1 GB
//	go run ./internal/shapes --as sd1.5 --out models/sd1.5 --dtype f32
//	go run ./internal/shapes --list
//
// diffusers loads the folders, and so does darkroom. Weights are functions of a seed and their names. Tokenizers know
// letters and no words; encoders larger than needed are cut; the list says so.
//
// Start with table.go, which holds the shapes and their settings; weights.go draws, words.go makes tokenizers.
package main
