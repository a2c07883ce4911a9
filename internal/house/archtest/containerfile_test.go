package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContainerfile: the Containerfile uses the Go release of go.mod, and the paths that it copies and builds exist.
func TestContainerfile(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	file, err := os.ReadFile(filepath.Join(root, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)
	image := regexp.MustCompile(`(?m)^FROM docker\.io/library/golang:(\S+) AS build$`).FindSubmatch(file)
	if release == nil || image == nil || string(release[1]) != string(image[1]) {
		t.Errorf("the image is %q, want Go %q of go.mod", image, release)
	}
	paths := 0
	for line := range strings.Lines(string(file)) {
		words := strings.Fields(line)
		var sources []string
		switch {
		case len(words) > 2 && words[0] == "COPY" && !strings.HasPrefix(words[1], "--"):
			sources = words[1 : len(words)-1]
		case len(words) > 2 && words[0] == "RUN":
			for _, w := range words {
				if strings.HasPrefix(w, "./") {
					sources = append(sources, strings.TrimSuffix(w, "/..."))
				}
			}
		}
		for _, source := range sources {
			paths++
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
	if paths != 5 { // go.mod, go.sum, the tree, the launcher, the examples
		t.Errorf("%d paths, want 5", paths)
	}
}
