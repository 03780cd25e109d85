package track

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TensorBoard reads a file of events, each a protocol buffer with its length and checksums around it
// (tensorflow's record_writer.cc, event.proto, summary.proto; the hparams plugin's plugin_data.proto):
//
//	length  uint64 | masked CRC-32C of it | data | masked CRC-32C of data
//
// Numbers are float32 there. A step is an iteration; after a rollback a session's start invalidates the events from its
// step on, and readers drop them.

// tensorBoard is the file.
type tensorBoard struct{ *growing }

// Numbers of tensorflow's enumerations.
const (
	sessionStart = 1
	stringTensor = 7
)

func openTensorBoard(dir string, run *Run, s state) (Target, error) {
	g, err := openGrowing(dir, fmt.Sprintf("events.out.tfevents.%010d.%s", int64(run.Began), run.ID), s)
	if err != nil {
		return nil, err
	}
	t := &tensorBoard{g}
	if t.end > 0 {
		return t, nil
	}
	return t, t.begin(run)
}

// begin writes the file's version and the settings.
func (t *tensorBoard) begin(run *Run) error {
	var version message
	version.double(1, run.Began)
	version.text(3, "brain.Event:2")
	if err := t.record(version); err != nil {
		return err
	}
	var settings message // HParamsPluginData
	settings.within(3, func(session *message) {
		for _, c := range run.Config {
			session.within(1, func(pair *message) {
				pair.text(1, c.Key)
				pair.within(2, c.protobuf)
			})
		}
		session.text(4, run.Name)
		session.double(5, run.Began)
	})
	return t.event(0, run.Began, func(value *message) {
		value.text(1, "_hparams_/session_start_info")
		value.within(9, func(meta *message) {
			meta.within(1, func(plugin *message) {
				plugin.text(1, "hparams")
				plugin.bytes(2, settings)
			})
		})
	})
}

// protobuf is a setting as google.protobuf.Value.
func (c Setting) protobuf(m *message) {
	switch v := c.Value.(type) {
	case float64:
		m.double(2, v)
	case bool:
		m.tag(4, 0)
		*m = append(*m, byte(map[bool]int{true: 1}[v]))
	case string:
		m.text(3, v)
	default:
		m.text(3, fmt.Sprint(v))
	}
}

func (t *tensorBoard) Append(e *Entry) error {
	if e.Restart > 0 {
		if err := t.restart(e); err != nil {
			return err
		}
	}
	var values []func(*message)
	for _, s := range e.Scalars {
		values = append(values, func(v *message) {
			v.text(1, s.Name)
			v.float(2, float32(s.Value))
		})
	}
	for _, h := range e.Histograms {
		values = append(values, func(v *message) {
			v.text(1, h.Name)
			v.within(5, h.proto)
		})
	}
	for _, p := range e.Pictures {
		values = append(values, func(v *message) {
			v.text(1, p.Name)
			v.within(4, func(image *message) {
				image.int(1, int64(p.Height))
				image.int(2, int64(p.Width))
				image.int(3, 3) // RGB
				image.bytes(4, p.PNG)
			})
		})
	}
	for _, x := range slices.Concat(e.Texts, alerts(e)) {
		values = append(values, func(v *message) { textValue(v, x) })
	}
	if len(values) == 0 {
		return nil
	}
	return t.event(e.Iteration, e.Time, values...)
}

// alerts are an entry's as texts.
func alerts(e *Entry) []Text {
	var all []Text
	for _, a := range e.Alerts {
		all = append(all, Text{"alert/" + a.Title, a.Text})
	}
	return all
}

// textValue is a text as a tensor of one string.
func textValue(v *message, x Text) {
	v.text(1, x.Name+"/text_summary")
	v.within(8, func(tensor *message) {
		tensor.int(1, stringTensor)
		tensor.within(2, func(shape *message) {
			shape.within(2, func(dim *message) { dim.int(1, 1) })
		})
		tensor.text(8, x.Value)
	})
	v.within(9, func(meta *message) {
		meta.within(1, func(plugin *message) { plugin.text(1, "text") })
	})
}

// restart says that steps from the entry's on are written again.
func (t *tensorBoard) restart(e *Entry) error {
	var m message
	m.double(1, e.Time)
	m.int(2, int64(e.Restart))
	m.within(7, func(session *message) { session.int(1, sessionStart) })
	return t.record(m)
}

// event writes an event with a summary's values.
func (t *tensorBoard) event(step int, time float64, values ...func(*message)) error {
	var m message
	m.double(1, time)
	if step != 0 {
		m.int(2, int64(step))
	}
	m.within(5, func(summary *message) {
		for _, fill := range values {
			summary.within(1, fill)
		}
	})
	return t.record(m)
}

// record writes a record.
func (t *tensorBoard) record(data []byte) error {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, data...)
	out = binary.LittleEndian.AppendUint32(out, masked(data))
	_, err := t.Write(out)
	return err
}

// masked is the checksum of records.
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (c>>15 | c<<17) + 0xa282ead8
}

func (t *tensorBoard) Commit(m Mark) error { return t.commit(m) }

// Finish has nothing to write: a file of events has no end.
func (t *tensorBoard) Finish(string) error { return nil }

// message is a protocol buffer under way: fields by their numbers, in the order in which they are added.
type message []byte

func (m *message) tag(field int, wire uint64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|wire)
}

func (m *message) int(field int, v int64) {
	m.tag(field, 0)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) double(field int, v float64) {
	m.tag(field, 1)
	*m = binary.LittleEndian.AppendUint64(*m, math.Float64bits(v))
}

func (m *message) float(field int, v float32) {
	m.tag(field, 5)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) bytes(field int, v []byte) {
	m.tag(field, 2)
	*m = binary.AppendUvarint(*m, uint64(len(v)))
	*m = append(*m, v...)
}

func (m *message) text(field int, v string) { m.bytes(field, []byte(v)) }

// within adds a message that fill makes.
func (m *message) within(field int, fill func(in *message)) {
	var in message
	fill(&in)
	m.bytes(field, in)
}

// Histogram counts values between edges, of which there is one more than counts.
type Histogram struct {
	Name   string
	Edges  []float64
	Counts []int
}

// totals is how an iteration's totals are distributed.
func totals(h *ledger.Histogram) Histogram {
	out := Histogram{Name: "sample/totals", Counts: h.Counts}
	for i := range len(h.Counts) + 1 {
		out.Edges = append(out.Edges, h.Low+(h.High-h.Low)*float64(i)/float64(len(h.Counts)))
	}
	return out
}

// binned is a histogram as W&B and trackio write it; they call its kind otherwise.
type binned struct {
	Type   string    `json:"_type"`
	Bins   []float64 `json:"bins"`
	Values []int     `json:"values"`
}

func (h Histogram) binned(kind string) binned { return binned{kind, h.Edges, h.Counts} }

// used is the histogram without the empty bins at its ends: TensorBoard takes them for a part of their neighbours.
func (h Histogram) used() Histogram {
	from, to := 0, len(h.Counts)
	for from < to && h.Counts[from] == 0 {
		from++
	}
	for to > from && h.Counts[to-1] == 0 {
		to--
	}
	return Histogram{h.Name, h.Edges[from : to+1], h.Counts[from:to]}
}

// proto is tensorflow's HistogramProto. Of values only their bins are known, so its sums are of the bins' middles.
func (h Histogram) proto(m *message) {
	h = h.used()
	var n, sum, squares float64
	var limits, counts []byte
	for i, c := range h.Counts {
		middle, of := (h.Edges[i]+h.Edges[i+1])/2, float64(c)
		n, sum, squares = n+of, sum+float64(of*middle), squares+float64(of*float64(middle*middle))
		limits = binary.LittleEndian.AppendUint64(limits, math.Float64bits(h.Edges[i+1]))
		counts = binary.LittleEndian.AppendUint64(counts, math.Float64bits(of))
	}
	m.double(1, h.Edges[0])
	m.double(2, h.Edges[len(h.Counts)])
	m.double(3, n)
	m.double(4, sum)
	m.double(5, squares)
	m.bytes(6, limits)
	m.bytes(7, counts)
}
