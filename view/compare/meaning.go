package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Cause is the meaning of a first difference, in a word.
type Cause string

// Causes of a difference.
const (
	Nothing    Cause = "nothing"
	Timing     Cause = "timing"
	Seed       Cause = "seed"
	Settings   Cause = "settings"
	Model      Cause = "model"
	Prompts    Cause = "prompts"
	Reward     Cause = "reward"  // another value for the same sample
	Samples    Cause = "samples" // the model made others
	Update     Cause = "update"  // the same samples moved the weights otherwise
	Weights    Cause = "weights" // a checkpoint alone differs
	Evaluation Cause = "evaluation"
	Unknown    Cause = "unknown" // nothing tells the reward from the sample
)

// meaning is the conclusion from the first difference. places are the first of every file.
func meaning(a, b *run, c *Comparison, places []Place) (Cause, string, error) {
	if c.First == nil {
		cause, says := none(a, b)
		return cause, says, nil
	}
	if cause, says := given(a, b); cause != "" {
		return cause, says, nil
	}
	first := *c.First
	switch {
	case first.rank == asked:
		return Prompts, "other prompts were rolled, or another window was trained, with the same settings: another version of the program, or files that were changed", nil
	case first.rank == made:
		return Samples, otherSamples, nil
	case first.rank <= described:
		cause, says, err := ofSamples(a, b, first, places)
		return cause, says, err
	case first.rank == moved:
		return Update, "samples, scores and advantages are the same, and the update is not: the gradient was computed otherwise", nil
	case first.rank == weighed:
		return Weights, "all that both runs wrote until then is the same, and the checkpoint's weights are not: the file was changed, or the weights moved unseen", nil
	case first.rank == watched:
		return Settings, "the monitors alone differ", nil
	}
	return ofEvaluation(a, b, first)
}

const otherSamples = "the samples themselves differ, with the same settings, model and prompts: other weights, another version of the program, or a device with other arithmetic"

// none is the meaning of files that are the same.
func none(a, b *run) (Cause, string) {
	same := "every number that both runs have is the same"
	if a.iterations() == 0 || b.iterations() == 0 {
		same = "there is nothing to compare: a run has no finished iteration"
	}
	x, errX := os.ReadFile(filepath.Join(a.dir, "timing.jsonl"))
	y, errY := os.ReadFile(filepath.Join(b.dir, "timing.jsonl"))
	if errX == nil && errY == nil && !bytes.Equal(x, y) {
		return Timing, same + "; only the times differ"
	}
	return Nothing, same
}

// given returns the meaning where the runs' inputs differ.
func given(a, b *run) (Cause, string) {
	list := deciding(a, b)
	seed := slices.ContainsFunc(list, func(line string) bool { return strings.HasPrefix(line, "run.seed ") })
	switch files := otherFiles(a, b); {
	case seed && len(list) == 1:
		return Seed, "the seeds differ, and so does all that is drawn"
	case len(files) > 0:
		return Model, "the models' files differ: " + strings.Join(files, ", ")
	case a.manifest.PromptsSum != b.manifest.PromptsSum:
		return Prompts, "the prompts differ"
	case len(list) > 0:
		return Settings, "the settings differ, and the first number that shows it is this one"
	}
	return "", ""
}

// ofSamples tells another score of the same sample from another sample.
func ofSamples(a, b *run, first Place, places []Place) (Cause, string, error) {
	for _, p := range places { // sorted, and one a file
		if p.rank == pictured && p.when() == first.when() {
			return Samples, otherSamples, nil
		}
	}
	same, known, err := samePictures(a, b, first)
	switch {
	case err != nil:
		return "", "", err
	case known && !same:
		return Samples, otherSamples, nil
	case first.rank == scored && (known || a.describes(first.when()) && b.describes(first.when())):
		return Reward, "the sample is the same, and the reward said another value", nil
	case first.rank == totalled || first.rank == credited:
		return Reward, "the rewards said the same, and were combined or compared otherwise", nil
	case first.rank == scored:
		return Unknown, "another reward value, or another sample: the folders keep nothing that tells", nil
	}
	return Samples, otherSamples, nil
}

// describes reports whether the ledger has numbers of the samples beside their scores.
func (r *run) describes(m moment) bool {
	for _, l := range r.lines {
		if (moment{l.Attempt, l.Iteration}) == m {
			return len(l.Pictures) > 0 || len(l.Episodes) > 0
		}
	}
	return false
}

// samePictures compares the pictures that were kept of an iteration; known: both kept the same ones.
func samePictures(a, b *run, p Place) (same, known bool, err error) {
	stem := fmt.Sprintf("%06d", p.Iteration)
	if p.Attempt > 0 {
		stem += fmt.Sprintf(".%d", p.Attempt)
	}
	same = true
	for _, end := range []string{"_best.png", "_worst.png"} {
		name := filepath.Join("images", stem+end)
		x, errX := os.ReadFile(filepath.Join(a.dir, name))
		y, errY := os.ReadFile(filepath.Join(b.dir, name))
		if errX != nil || errY != nil {
			return false, false, nil
		}
		same = same && bytes.Equal(x, y)
	}
	// Other scores may make another picture the best one: then the files say nothing.
	return same, same, nil
}

// ofEvaluation is the meaning where training is the same, and held-out samples are not.
func ofEvaluation(a, b *run, first Place) (Cause, string, error) {
	when := fmt.Sprintf("iteration %d", first.Iteration)
	sheet := fmt.Sprintf("heldout_%06d.png", first.Iteration)
	if first.Iteration == 0 {
		when, sheet = "the evaluation before the first iteration", "heldout_before.png"
	}
	if a.manifest.HeldOutSum != b.manifest.HeldOutSum {
		return Prompts, "the held-out prompts differ", nil
	}
	for _, line := range settings(a, b) {
		if strings.HasPrefix(line, "evaluate.") {
			return Evaluation, "training is the same up to " + when + ", and the runs are evaluated otherwise", nil
		}
	}
	x, errX := os.ReadFile(filepath.Join(a.dir, "images", sheet))
	y, errY := os.ReadFile(filepath.Join(b.dir, "images", sheet))
	if errX == nil && errY == nil && bytes.Equal(x, y) && first.rank == evaluated {
		return Reward, "the held-out pictures are the same, and the reward said another value", nil
	}
	return Evaluation, "all is the same up to " + when + ", and the held-out samples or their scores are not", nil
}
