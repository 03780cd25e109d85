package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestBytes: a file in memory has the bytes of one on the disk, and is read as one.
func TestBytes(t *testing.T) {
	tensors := []Tensor{FromF32("b", []int{2}, []float32{1, 2}), FromF32("a", []int{1, 1}, []float32{3})}
	meta := map[string]string{"k": "v"}
	data, err := Bytes(tensors, meta)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := Write(path, tensors, meta); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(path); err != nil || !bytes.Equal(file, data) {
		t.Errorf("the bytes differ from the file's: %v", err)
	}
	f, err := Read("x", data)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Tensor("b")
	if err != nil || !bytes.Equal(b.Data, tensors[0].Data) || f.Metadata["k"] != "v" {
		t.Errorf("%v, %v, %v", b, f.Metadata, err)
	}
	if _, err := Read("x", data[:len(data)-1]); err == nil {
		t.Error("a file that was cut short was read")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("b"); err == nil {
		t.Error("it is read after it was closed")
	}
	if _, err := Bytes([]Tensor{tensors[0], tensors[0]}, nil); err == nil {
		t.Error("one name was written twice")
	}
}
