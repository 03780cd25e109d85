package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/rewards"
	listed "github.com/darkroom-rl/darkroom/rewards/kinds"
)

// The page of rewards' weights, docs/rewards.md.

const weightsHead = `# Weights of rewards

Written by ` + "`go generate ./cmd/darkroom`" + `. ` + "`darkroom pull --reward NAME`" + ` fetches the weights of a reward from the
repositories of its row into its folder, which is the ` + "`path`" + ` of its ` + "`[[reward]]`" + `. State dicts of ` + "`torch.save`" + `
(.pt, .pth) become safetensors on the way; nothing that their pickles ask for is called. Memory is the network's in
fp32; ` + "`precision = \"bf16\"`" + ` halves it. An empty licence is on the repository's page.

A head of the aesthetic predictor that is here already (sac+logos+ava1-l14-linearMSE.pth) is read as it is, in the
folder of openai/clip-vit-large-patch14. ` + "`ocr`" + ` starts Tesseract where ` + "`path = \"tesseract\"`" + ` (Debian:
tesseract-ocr), or reads by PP-OCR's ONNX files in a folder. ` + "`onnx`, `identity`" + ` and ` + "`editreward`" + ` take files of yours.

| reward | repositories | folder | licence | memory |
|---|---|---|---|---|
`

// publishedRewards are the rewards whose weights are on the hub.
func publishedRewards() (all []rewards.Kind) {
	for _, k := range listed.All() {
		if k.Published != nil {
			all = append(all, k)
		}
	}
	return all
}

// repositories are those of a reward, with the files of each that are taken alone.
func repositories(k rewards.Kind) string {
	var all []string
	for _, r := range k.Published.From {
		one := r.Name
		switch {
		case r.Saves.From != "":
			one += " (" + r.Saves.From + ")"
		case r.Files != nil && len(r.Files) < 4:
			one += " (" + strings.Join(r.Files, ", ") + ")"
		case r.Files != nil:
			one += " (tokenizer, settings)"
		}
		all = append(all, one)
	}
	return strings.Join(all, "; ")
}

func writeWeights(w io.Writer) {
	fmt.Fprint(w, weightsHead)
	for _, k := range publishedRewards() {
		fmt.Fprintf(w, "| `%s` | %s | `%s` | %s | %s |\n", k.Name, repositories(k), k.Folder(), k.Published.Licence, console.Bytes(4*k.Published.Numbers))
	}
}

// weightNames are the rewards' weights for darkroom list.
func weightNames() (all []name) {
	for _, k := range publishedRewards() {
		licence := k.Published.Licence
		if licence != "" {
			licence = ", licence " + licence
		}
		all = append(all, name{Kind: "weights", Name: k.Name, What: fmt.Sprintf("%s into %s, %s in fp32%s", repositories(k), k.Folder(), console.Bytes(4*k.Published.Numbers), licence)})
	}
	return all
}
