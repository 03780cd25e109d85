package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one of an archive.
type file struct {
	name string // in the archive's folder
	from string
	mode fs.FileMode
}

// files are the program, its modules' licences and their bill, its manual, and the files packed beside it, by their
// names.
func (t target) files(program, sbom string, all []module, pages []file) ([]file, error) {
	files := slices.Concat([]file{{t.program(), program, 0o755}, {"sbom.cdx.json", sbom, 0o644}}, pages)
	for _, m := range all {
		files = append(files, m.notices...)
	}
	for _, root := range beside {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && path.Ext(p) != ".go" {
				files = append(files, file{filepath.ToSlash(p), p, 0o644})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// packTar writes a .tar.gz. Nothing in it depends on who packs, or when.
func packTar(w io.Writer, folder string, files []file, when time.Time) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zipped)
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: path.Join(folder, f.name), Mode: int64(f.mode), Size: int64(len(text)), ModTime: when.UTC(), Format: tar.FormatUSTAR}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// packZip writes a .zip, as Windows opens it.
func packZip(w io.Writer, folder string, files []file, when time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: when.UTC()}
		h.SetMode(f.mode)
		one, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := one.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}
