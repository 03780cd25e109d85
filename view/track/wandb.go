package track

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// W&B's offline runs are folders that 'wandb sync' sends:
//
//	offline-run-DATE-ID/run-ID.wandb      records
//	offline-run-DATE-ID/files/media/...   pictures
//
// The records are LevelDB's log (wandb/sdk/internal/datastore.py): a header of 7 bytes, then blocks of 32 KiB in
// which a record is whole or in parts, each with CRC-32 (IEEE) of its kind and data, a length and a kind. A record is
// a protocol buffer (wandb_internal.proto). The step is the entry's place, since a step that falls is dropped.

// wandb is the file.
type wandb struct {
	*growing
	run    *Run
	folder string
	num    int64 // of the last record
}

const (
	blockBytes = 32 << 10
	partHeader = 7
)

// Kinds of a record's parts.
const (
	fullPart = iota + 1
	firstPart
	middlePart
	lastPart
)

func openWandB(dir string, run *Run, s state) (Target, error) {
	began := time.UnixMicro(int64(math.Round(run.Began * 1e6))).UTC()
	name := fmt.Sprintf("offline-run-%s-%s", began.Format("20060102_150405"), run.ID)
	g, err := openGrowing(dir, filepath.Join(name, "run-"+run.ID+".wandb"), s)
	if err != nil {
		return nil, err
	}
	w := &wandb{growing: g, run: run, folder: filepath.Join(dir, name)}
	if w.end > 0 {
		w.num = s.Records
		return w, nil
	}
	if _, err := w.Write([]byte(":W&B\xe1\xbe\x00")); err != nil {
		return nil, err
	}
	return w, w.begin()
}

// begin writes the header's record and the run's.
func (w *wandb) begin() error {
	err := w.record(21, func(m *message) {
		m.within(1, func(version *message) {
			version.text(1, "darkroom")
			version.text(2, "0.40.0")
		})
	})
	if err != nil {
		return err
	}
	return w.answered(17, "run", func(m *message) {
		m.text(1, w.run.ID)
		m.text(3, w.run.Project)
		m.within(4, func(config *message) {
			for _, c := range w.run.Config {
				item(config, 1, c.Key, jsonOf(c.Value))
			}
		})
		m.text(8, w.run.Name)
		m.within(17, func(start *message) {
			start.int(1, int64(w.run.Began))
			start.int(2, int64((w.run.Began-math.Floor(w.run.Began))*1e6)*1e3)
		})
	})
}

// item adds a key with its value as JSON.
func item(m *message, field int, key, value string) {
	m.within(field, func(in *message) {
		in.text(2, key) // nested_key of one part: a key with a dot stays one
		in.text(16, value)
	})
}

// jsonOf is a value as Python's json writes it: W&B reads NaN and Infinity.
func jsonOf(v any) string {
	if x, ok := v.(float64); ok {
		if word, ok := finite(x).(string); ok {
			return word
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}

func (w *wandb) Append(e *Entry) error {
	var items []Setting
	for _, s := range e.Scalars {
		items = append(items, Setting{s.Name, s.Value})
	}
	for _, h := range e.Histograms {
		items = append(items, Setting{h.Name, h.binned("histogram")})
	}
	for _, x := range e.Texts {
		items = append(items, Setting{x.Name, x.Value})
	}
	for i, p := range e.Pictures {
		of, err := w.keep(e.Order, i, p)
		if err != nil {
			return err
		}
		items = append(items, Setting{p.Name, of})
	}
	if len(items) > 0 {
		if err := w.history(e, items); err != nil {
			return err
		}
	}
	for _, a := range e.Alerts {
		if err := w.record(10, func(m *message) {
			m.text(1, a.Title)
			m.text(2, a.Text)
			m.text(3, "WARN")
		}); err != nil {
			return err
		}
	}
	return nil
}

// history writes a step, and its numbers as the latest ones.
func (w *wandb) history(e *Entry, items []Setting) error {
	items = append(items, Setting{"_timestamp", e.Time}, Setting{"_runtime", max(0, e.Time-w.run.Began)}, Setting{"_step", e.Order})
	err := w.record(2, func(m *message) {
		for _, i := range items {
			item(m, 1, i.Key, jsonOf(i.Value))
		}
		m.within(2, func(step *message) {
			if e.Order > 0 {
				step.int(1, int64(e.Order))
			}
		})
	})
	if err != nil {
		return err
	}
	return w.record(3, func(m *message) {
		for _, i := range items {
			item(m, 1, i.Key, jsonOf(i.Value))
		}
	})
}

// imageFile is how a step names a picture.
type imageFile struct {
	Type    string `json:"_type"`
	SHA256  string `json:"sha256"`
	Size    int    `json:"size"`
	Path    string `json:"path"`
	Format  string `json:"format"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Caption string `json:"caption,omitempty"`
}

// keep writes a picture among the run's files.
func (w *wandb) keep(order, n int, p Picture) (imageFile, error) {
	sum := sha256.Sum256(p.PNG)
	of := imageFile{Type: "image-file", SHA256: hex.EncodeToString(sum[:]), Size: len(p.PNG), Format: "png", Width: p.Width, Height: p.Height, Caption: p.Caption}
	of.Path = fmt.Sprintf("media/images/%s_%d_%d_%s.png", strings.ReplaceAll(p.Name, "/", "_"), order, n, of.SHA256[:20])
	to := filepath.Join(w.folder, "files", filepath.FromSlash(of.Path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return of, err
	}
	if err := folder.WriteFile(to, p.PNG); err != nil {
		return of, err
	}
	return of, w.record(6, func(m *message) {
		m.within(1, func(file *message) { file.text(1, of.Path) })
	})
}

// record writes a record whose content is field.
func (w *wandb) record(field int, fill func(*message)) error {
	return w.numbered(func(m *message) { m.within(field, fill) })
}

// answered is record for the messages that W&B's Go client answers, a run's beginning and its end: without a slot for
// the answer 'wandb beta sync' waits for ever.
func (w *wandb) answered(field int, slot string, fill func(*message)) error {
	return w.numbered(func(m *message) {
		m.within(16, func(control *message) {
			control.text(4, slot)
			control.int(5, 1) // always sent
		})
		m.within(field, fill)
	})
}

func (w *wandb) numbered(fill func(*message)) error {
	w.num++
	var m message
	m.int(1, w.num)
	fill(&m)
	return w.log(m)
}

// log writes data as LevelDB's log does: whole, or in parts that end with their blocks.
func (w *wandb) log(data []byte) error {
	kind := fullPart
	for {
		left := blockBytes - int(w.end%blockBytes)
		if left < partHeader {
			if _, err := w.Write(make([]byte, left)); err != nil {
				return err
			}
			left = blockBytes
		}
		part := data[:min(len(data), left-partHeader)]
		last := len(part) == len(data)
		switch {
		case kind == fullPart && !last:
			kind = firstPart
		case kind != fullPart && last:
			kind = lastPart
		}
		if err := w.part(kind, part); err != nil || last {
			return err
		}
		data, kind = data[len(part):], middlePart
	}
}

// part writes one part of a record.
func (w *wandb) part(kind int, data []byte) error {
	sum := crc32.Update(crc32.ChecksumIEEE([]byte{byte(kind)}), crc32.IEEETable, data)
	out := binary.LittleEndian.AppendUint32(nil, sum)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(data)))
	out = append(append(out, byte(kind)), data...)
	_, err := w.Write(out)
	return err
}

func (w *wandb) Commit(m Mark) error {
	w.state.Records = w.num
	return w.commit(m)
}

// Finish writes how the run ended.
func (w *wandb) Finish(status string) error {
	code := map[string]int64{ledger.Finished: 0, ledger.Stopped: 3, ledger.Interrupted: 130}[status]
	err := w.answered(18, "exit", func(m *message) {
		if code != 0 {
			m.int(1, code)
		}
		m.int(2, int64(max(0, w.state.Mark.Time-w.run.Began)))
	})
	if err != nil {
		return err
	}
	return w.file.Sync()
}
