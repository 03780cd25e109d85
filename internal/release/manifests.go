package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// releases is where archives of a version lie.
const releases = "https://github.com/darkroom-rl/darkroom/releases/download"

const (
	homepage = "https://github.com/darkroom-rl/darkroom"
	sentence = "Post-trains image, video and vision-language models with reinforcement learning"
)

// manifests writes a formula of Homebrew and a manifest of Scoop, with the checksums of archives by their names.
// A version without a tag has no archives to fetch, and its manifests name the commit's version all the same.
func manifests(out, version string, sums map[string]string) error {
	for name, text := range map[string]string{"darkroom.rb": formula(version, sums), "darkroom.json": scoop(version, sums)} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// formula is that of Homebrew, on macOS and Linux.
func formula(version string, sums map[string]string) string {
	source := func(name string) string {
		return fmt.Sprintf("      url %q\n      sha256 %q\n", releases+"/"+version+"/"+name, sums[name])
	}
	return fmt.Sprintf(`class Darkroom < Formula
  desc %q
  homepage %q
  version %q
  license "Apache-2.0"

  on_macos do
    on_arm do
%s    end
  end
  on_linux do
    on_intel do
%s    end
    on_arm do
%s    end
  end

  def install
    bin.install "darkroom"
    man1.install "darkroom.1"
    bash_completion.install "completions/darkroom.bash" => "darkroom"
    zsh_completion.install "completions/_darkroom"
    fish_completion.install "completions/darkroom.fish"
    doc.install "docs", "README.md", "CHANGELOG.md"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/darkroom version")
  end
end
`, sentence, homepage, strings.TrimPrefix(version, "v"), source("darkroom-darwin-arm64.tar.gz"),
		source("darkroom-linux-amd64.tar.gz"), source("darkroom-linux-arm64.tar.gz"))
}

// scoop is the manifest of Scoop, on Windows.
func scoop(version string, sums map[string]string) string {
	const name = "darkroom-windows-amd64"
	return fmt.Sprintf(`{
    "version": %q,
    "description": %q,
    "homepage": %q,
    "license": "Apache-2.0",
    "architecture": {
        "64bit": {
            "url": %q,
            "hash": %q,
            "extract_dir": %q
        }
    },
    "bin": "darkroom.exe"
}
`, strings.TrimPrefix(version, "v"), sentence, homepage, releases+"/"+version+"/"+name+".zip", sums[name+".zip"], name)
}
