package prompts

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// meanings are the logical types of the file's leaves, in order: the reader's types keep fewer.
func meanings(f *parquet.File) (all []any) {
	for _, e := range f.Metadata().Schema {
		if e.NumChildren.Valid && e.NumChildren.V > 0 {
			continue
		}
		var meaning any
		if e.LogicalType.Value != nil {
			meaning = e.LogicalType.Value
		}
		all = append(all, meaning)
	}
	return all
}

// cell returns a value of a leaf, by its logical type in the file.
func (a assembly) cell(leaf *parquet.Column, v parquet.Value) (any, error) {
	if v.IsNull() {
		return nil, nil
	}
	var meaning any
	if i := leaf.Index(); i < len(a.meanings) {
		meaning = a.meanings[i]
	}
	if l := leaf.Type().LogicalType(); meaning == nil && l != nil { // of an older writer
		meaning = l.Value
	}
	switch m := meaning.(type) {
	case *format.DecimalType:
		return decimal(unscaled(v), int(m.Scale)), nil
	case *format.DateType:
		return time.Unix(int64(v.Int32())*24*3600, 0).UTC().Format(time.DateOnly), nil
	case *format.TimestampType:
		return stamp(v.Int64(), m), nil
	case *format.TimeType:
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return clock(time.Unix(0, n*int64(m.Unit.Value.Duration())).UTC()), nil
	case *format.Float16Type:
		return pytext.NewFloat(half(binary.LittleEndian.Uint16(v.ByteArray()))), nil
	case *format.IntType:
		if !m.IsSigned {
			return unsigned(v), nil
		}
	case *format.NullType:
		return nil, nil
	}
	return physical(v, isText(meaning))
}

// physical returns a value of a leaf without a logical type.
func physical(v parquet.Value, text bool) (any, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32:
		return pytext.NewInt(int(v.Int32())), nil
	case parquet.Int64:
		return pytext.NewInt(int(v.Int64())), nil
	case parquet.Float:
		return pytext.NewFloat(float64(v.Float())), nil
	case parquet.Double:
		return pytext.NewFloat(v.Double()), nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if !text {
			return v.ByteArray(), nil
		}
		if !utf8.Valid(v.ByteArray()) {
			return nil, fmt.Errorf("a text is not UTF-8")
		}
		return string(v.ByteArray()), nil
	}
	return nil, fmt.Errorf("a value of kind %v is not read", v.Kind())
}

func isText(meaning any) bool {
	switch meaning.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return true
	}
	return false
}

func unsigned(v parquet.Value) pytext.Number {
	if v.Kind() == parquet.Int32 {
		return pytext.NewUint(uint64(v.Uint32()))
	}
	return pytext.NewUint(v.Uint64())
}

// unscaled is a decimal's whole number.
func unscaled(v parquet.Value) *big.Int {
	switch v.Kind() {
	case parquet.Int32:
		return big.NewInt(int64(v.Int32()))
	case parquet.Int64:
		return big.NewInt(v.Int64())
	}
	raw := v.ByteArray()
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return n
}

// decimal writes a number with scale digits behind the point.
func decimal(n *big.Int, scale int) string {
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	digits := new(big.Int).Abs(n).String()
	if scale <= 0 {
		return sign + digits
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// stamp is a time as Python's isoformat writes it.
func stamp(n int64, of *format.TimestampType) string {
	unit := int64(of.Unit.Value.Duration())
	per := int64(time.Second) / unit
	seconds, rest := n/per, n%per
	if rest < 0 {
		seconds, rest = seconds-1, rest+per
	}
	t := time.Unix(seconds, rest*unit).UTC()
	text := t.Format("2006-01-02T") + clock(t)
	if of.IsAdjustedToUTC {
		text += "+00:00"
	}
	return text
}

// clock is a time of day, with microseconds where there are some.
func clock(t time.Time) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format(time.TimeOnly)
	}
	return t.Format("15:04:05.000000")
}

// half is a number of 16 bits.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
