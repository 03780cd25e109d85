package pull

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// A File is one of a revision, as the hub lists it. Large files have the SHA-256 of their bytes, the
// others the hash that git gives a blob.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Git    string `json:"git,omitempty"`
}

const (
	maxFiles  = 10000
	maxAnswer = 32 << 20 // bytes of an answer of the hub's
	maxSmall  = 1 << 20  // bytes of model_index.json
)

var hexHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// sum is the hash that the file must have, of no bytes yet.
func (f File) sum() hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// holds reports whether a sum is the file's.
func (f File) holds(h hash.Hash) bool {
	want := f.SHA256
	if want == "" {
		want = f.Git
	}
	return hex.EncodeToString(h.Sum(nil)) == want
}

// commit is the one that the revision names.
func (s *server) commit(ctx context.Context) (string, error) {
	var said struct {
		SHA string `json:"sha"`
	}
	at := s.at("api", "models", s.Repo, "revision", s.Revision)
	if _, err := s.json(ctx, at, &said); err != nil {
		return "", fmt.Errorf("asking for revision %q of %s: %w", s.Revision, s.Repo, err)
	}
	if !hexHash.MatchString(said.SHA) {
		return "", fmt.Errorf("revision %q of %s: the hub names the commit %.60q, which is no hash", s.Revision, s.Repo, said.SHA)
	}
	return said.SHA, nil
}

// list is all files of a commit. Long lists come in pages.
func (s *server) list(ctx context.Context, commit string) ([]File, error) {
	at := s.at("api", "models", s.Repo, "tree", commit)
	at.RawQuery = "recursive=true"
	var all []File
	seen := map[string]bool{} // files and folders
	for at != nil {
		var entries []struct {
			Type, Path, OID string
			Size            int64
			LFS             *struct {
				OID  string
				Size int64
			}
		}
		header, err := s.json(ctx, at, &entries)
		if err != nil {
			return nil, fmt.Errorf("listing the files of %s: %w", s.Repo, err)
		}
		before := len(seen)
		for _, e := range entries {
			known := seen[e.Path]
			seen[e.Path] = true
			if e.Type != "file" || known {
				continue
			}
			f := File{Path: e.Path, Size: e.Size, Git: e.OID}
			if e.LFS != nil {
				f = File{Path: e.Path, Size: e.LFS.Size, SHA256: strings.TrimPrefix(e.LFS.OID, "sha256:")}
			}
			if err := f.check(); err != nil {
				return nil, fmt.Errorf("the list of %s: %w", s.Repo, err)
			}
			all = append(all, f)
		}
		if len(all) > maxFiles || len(seen) > 2*maxFiles {
			return nil, fmt.Errorf("%s lists more than %d files, which no model has", s.Repo, maxFiles)
		}
		if at, err = s.next(at, header); err != nil {
			return nil, err
		}
		if at != nil && len(seen) == before {
			return nil, fmt.Errorf("the list of %s does not end: a page brings nothing new and names a next one\nhint: HF_ENDPOINT must be a hub's address; a proxy may answer every page by the same one", s.Repo)
		}
	}
	return all, nil
}

// check refuses names that could lead outside the folder and files that could not be compared.
func (f File) check() error {
	switch {
	case strings.ContainsAny(f.Path, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(f.Path)):
		return fmt.Errorf("%.80q lies outside the folder", f.Path)
	case f.Path == recordName || strings.HasSuffix(f.Path, unfinished):
		return fmt.Errorf("%.80q is a name that pull uses itself", f.Path)
	case f.Size < 0:
		return fmt.Errorf("%.80q has a size of %d", f.Path, f.Size)
	case !hexHash.MatchString(f.SHA256 + f.Git):
		return fmt.Errorf("%.80q: invalid hash %.80q", f.Path, f.SHA256+f.Git)
	}
	return nil
}

var nextLink = regexp.MustCompile(`<([^>]+)>\s*;\s*rel="?next"?`)

// next is the page after at; nil for the last. It must be of the same hub.
func (s *server) next(at *url.URL, header http.Header) (*url.URL, error) {
	m := nextLink.FindStringSubmatch(header.Get("Link"))
	if m == nil {
		return nil, nil
	}
	next, err := at.Parse(m[1])
	if err != nil || next.Host != at.Host || next.Scheme != at.Scheme {
		return nil, fmt.Errorf("the list of %s goes on at %.80q, which is not the hub's", s.Repo, m[1])
	}
	return next, nil
}

// json reads one answer of the hub's interface.
func (s *server) json(ctx context.Context, at *url.URL, into any) (header http.Header, err error) {
	err = s.tried(ctx, func() (bool, error) {
		a, err := s.get(ctx, at, 0)
		if err != nil {
			return false, err
		}
		defer a.Body.Close()
		text, err := a.all(maxAnswer)
		if err != nil {
			return false, err
		}
		header = a.Header
		if err := json.Unmarshal(text, into); err != nil {
			return false, final{fmt.Errorf("%s answers with no JSON of that kind: %w\nhint: HF_ENDPOINT must be a hub's address", at.Host, err)}
		}
		return true, nil
	})
	return header, err
}

// small fetches a small file to memory.
func (s *server) small(ctx context.Context, commit string, f File) (text []byte, err error) {
	if f.Size > maxSmall {
		return nil, fmt.Errorf("%s of %s has %d bytes, more than any", f.Path, s.Repo, f.Size)
	}
	err = s.tried(ctx, func() (bool, error) {
		a, err := s.get(ctx, s.resolve(commit, f.Path), 0)
		if err != nil {
			return false, err
		}
		defer a.Body.Close()
		if text, err = a.all(maxSmall); err != nil {
			return false, err
		}
		h := f.sum()
		h.Write(text)
		if !f.holds(h) {
			return false, fmt.Errorf("%s of %s: the bytes that came do not have the hash of the list", f.Path, s.Repo)
		}
		return true, nil
	})
	return text, err
}
