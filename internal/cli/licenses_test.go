package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLicenses: licenses/ has the licenses of Go and of all modules that are linked into oshrun, and no others. The
// texts come from the module cache of the user who compiled this test; CI's ordinary user has none.
func TestLicenses(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "github.com/goshmem/goshmem/cmd/oshrun")
	list.Env = append(os.Environ(), "GOPROXY=off")
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil && os.Getuid() != 0 && strings.Contains(said.String(), "GOPROXY=off") {
		t.Skip("this user's module cache does not have the modules")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	check(t, err)
	folders := map[string]string{"go": strings.TrimSpace(string(root))}
	for line := range strings.Lines(string(out)) {
		if module, folder, found := strings.Cut(strings.TrimSpace(line), " "); found {
			folders[module] = folder
		}
	}
	var want []string
	for module, folder := range folders {
		want = append(want, licenseFile(module))
		var text []byte
		for _, name := range []string{"LICENSE", "LICENSE.txt", "PATENTS"} {
			part, err := os.ReadFile(filepath.Join(folder, name))
			if err == nil {
				text = append(text, part...)
			}
		}
		if got, err := os.ReadFile(licenseFile(module)); err != nil || len(text) == 0 || !bytes.Equal(got, text) {
			t.Errorf("%s: %v, want the license of %s: LICENSE, LICENSE.txt and PATENTS of %s, one after the other", licenseFile(module), err, module, folder)
		}
	}
	got, err := filepath.Glob("licenses/*")
	check(t, err)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}
