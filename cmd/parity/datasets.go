package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Files of data sets: every cell of every row, compared with pyarrow's reading. Counts of rows are outputs; cells are
// compared here, since they stand in a file of their own.

var datasetOps = map[string]Op{"data.parquet": dataParquet}

func dataParquet(c *Case) {
	var doc struct {
		Expected string
		Args     struct {
			Splits map[string][]string
			Same   []string `json:"same_as_table"`
		}
	}
	check(json.Unmarshal(c.raw, &doc))
	text := must(os.ReadFile(filepath.Join(c.dir, doc.Expected)))
	var want map[string][]json.RawMessage
	check(json.Unmarshal(text, &want))
	for split, files := range doc.Args.Splits {
		var rows []string
		for _, name := range files {
			rows = append(rows, rowsOf(filepath.Join(c.dir, name))...)
		}
		sameRows(split, rows, want[split])
		asDataset(c.dir, split, files, len(rows))
		c.Put("rows."+split, []int{len(rows)})
	}
	for _, name := range doc.Args.Same {
		sameRows(name, rowsOf(filepath.Join(c.dir, name)), want["table"])
	}
}

// asDataset opens a split by the names of a folder's files, where they follow the hub's layout.
func asDataset(dir, split string, files []string, rows int) {
	if filepath.Dir(files[0]) == "." {
		return
	}
	t := must(prompts.OpenTable(dir + "@" + split))
	defer t.Close()
	if n := t.Rows(); n != rows {
		failf("split %s of the folder has %d rows, and its files %d", split, n, rows)
	}
}

// rowsOf are a file's rows as JSON, read in order and then by number.
func rowsOf(path string) (rows []string) {
	t := must(prompts.OpenTable(path))
	defer t.Close()
	check(t.Each(true, func(_ prompts.Place, row pytext.Ordered) error {
		rows = append(rows, pytext.Dumps(cellOf(row)))
		return nil
	}))
	if len(rows) == 0 {
		return nil
	}
	for _, i := range []int{0, len(rows) / 2, len(rows) - 1} {
		if _, row := must2(t.Row(i, true)); pytext.Dumps(cellOf(row)) != rows[i] {
			failf("%s: row %d is another where it is read by its number", path, i)
		}
	}
	return rows
}

// sameRows compares rows with recorded ones.
func sameRows(what string, rows []string, want []json.RawMessage) {
	if len(rows) != len(want) {
		failf("%s: %d rows, and %d are recorded", what, len(rows), len(want))
	}
	for i := range rows {
		recorded := must(pytext.OrderedJSON(string(want[i])))
		if text := pytext.Dumps(recorded); text != rows[i] {
			failf("%s: row %d is %s, and recorded is %s", what, i, rows[i], text)
		}
	}
}

// cellOf is a cell as the recorder writes it: of bytes their sum, and of a picture its size and its sum.
func cellOf(v any) any {
	switch v := v.(type) {
	case []byte:
		return blobOf(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cellOf(e)
		}
		return out
	case pytext.Ordered:
		out := pytext.Ordered{Keys: v.Keys, Values: pytext.Object{}}
		for k, e := range v.Values {
			out.Values[k] = cellOf(e)
		}
		return out
	case pytext.Number:
		switch {
		case math.IsNaN(v.Value):
			return "NaN"
		case math.IsInf(v.Value, 1):
			return "Infinity"
		case math.IsInf(v.Value, -1):
			return "-Infinity"
		}
	}
	return v
}

func blobOf(data []byte) pytext.Ordered {
	sum := sha256.Sum256(data)
	o := pytext.Ordered{Values: pytext.Object{}}
	put := func(key string, v any) { o.Keys, o.Values[key] = append(o.Keys, key), v }
	put("len", pytext.NewInt(len(data)))
	put("sha256", hex.EncodeToString(sum[:]))
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		put("base64", base64.StdEncoding.EncodeToString(data))
		return o
	}
	put("width", pytext.NewInt(config.Width))
	put("height", pytext.NewInt(config.Height))
	put("mode", modeOf(format, data))
	put("format", map[string]string{"png": "PNG", "jpeg": "JPEG"}[format])
	put("rgb_sha256", nil)
	if format == "png" {
		if m, err := vision.Decode(slices.Clone(data), vision.Limits{}); err == nil {
			sum := sha256.Sum256(m.Pix)
			o.Values["rgb_sha256"] = hex.EncodeToString(sum[:])
		}
	}
	return o
}

// modeOf is Pillow's word for a picture's pixels: a PNG's by its type of colours.
func modeOf(format string, data []byte) string {
	const colours = 25 // of a PNG's header
	if format == "png" && len(data) > colours {
		return map[byte]string{0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}[data[colours]]
	}
	return "RGB"
}
