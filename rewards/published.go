package rewards

import (
	"errors"
	"fmt"
	files "path"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/assets"
)

// Published are a reward's weights on the hub: the repositories whose files make its folder, in their order. A file of
// a later one fills a gap, and replaces none.
type Published struct {
	From    []Repository
	Licence string // "": the repository's page has it
	Numbers int64  // of the network, which take 4 bytes each in fp32 and 2 in bf16
}

// A Repository of the hub has files of a folder.
type Repository struct {
	Name  string   // OWNER/NAME
	Files []string // patterns; nil: those of a model
	Saves Pickle
}

// A Pickle is a state dict that torch.save wrote, and the safetensors file that it becomes.
type Pickle struct{ From, To string }

// Folder is the folder that its weights are fetched into: of a whole model with the model's name, else with the
// reward's.
func (k Kind) Folder() string {
	if k.Published.From[0].Files == nil {
		return "models/" + files.Base(k.Published.From[0].Name)
	}
	return "models/" + k.Name
}

// Fetch is the command that fetches its weights into a folder.
func (k Kind) Fetch(into string) string {
	command := "darkroom pull --reward " + k.Name
	if into = filepath.ToSlash(filepath.Clean(into)); into != k.Folder() {
		command += " --out " + into
	}
	return command
}

// A NoFolder is the error of a folder that is not there.
type NoFolder struct{ Path string }

func (e NoFolder) Error() string {
	return fmt.Sprintf("%s: no such folder\nhint: %s", e.Path, assets.Fetching(e.Path))
}

// Missing is an error of the reward; of weights that the hub has, with the command that fetches them.
func (k Kind) Missing(err error) error {
	var no NoFolder
	if k.Published == nil || !errors.As(err, &no) {
		return err
	}
	return fmt.Errorf("%s: no such folder\nhint: '%s' fetches it", no.Path, k.Fetch(no.Path))
}

// Texts are the files of a tokenizer and of pictures' preparation, for weights that were published without them.
func Texts(further ...string) []string {
	return append([]string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "vocab.txt", "merges.txt", "preprocessor_config.json"}, further...)
}
