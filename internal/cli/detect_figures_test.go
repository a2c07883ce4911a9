package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/lab/detectfigures"
)

// Figures with real failures: tables in the document, pictures in the directory, and the paper's values beside ours.
func TestDetectFigures(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pictures")
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, []byte("<!-- detect-figures 11: begin -->\n<!-- detect-figures 11: end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := start(t, strings.Fields("detect-figures --figure 11 --nodes 2,3 --sim-nodes 2,8,64 --samples 1 --sim-samples 2 --seed 7 --out "+dir+" --doc "+doc)...)
	j.expect(0)
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"seed 7, ", "Figure 11: A PE's death", "\nemulated   ", "\nsimulated  ", "literal, PE members", "paper, 5.5", "below 5",
		"fit, simulated, goshmem: last = ", filepath.Join(dir, "detect-figure-11.svg"),
	} {
		if !strings.Contains(j.stdout.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &j.stdout)
		}
	}
	if !strings.Contains(string(text), "| emulated | goshmem | pe | 3 | 3 | - | 1 |") {
		t.Errorf("document lacks a row:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "detect-figure-11.svg")); err != nil {
		t.Error(err)
	}
}

// As root, nodes die with their networks, so only their silence tells of it.
func TestDetectFiguresNodes(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Root, testenv.Namespaces)
	r := experimentJSON[detectfigures.Report](t, 0, strings.Fields("detect-figures --figure 10,14 --nodes 3 --sim-nodes 64 --periods 50ms --samples 1 --sim-samples 4 --json")...)
	if len(r.Figures) != 2 || r.Samples != 1 || r.SimSamples != 4 {
		t.Fatalf("%+v", r)
	}
	for _, f := range r.Figures {
		row := f.Rows[0]
		if row.How != detectfigures.Emulated || row.Nodes != 3 || row.Period != 50 || row.Samples != 1 || row.Last == nil || row.Last.Min < 10 {
			t.Errorf("figure %s: %+v, last %+v; want an emulated failure that heartbeats have shown", f.Name, row, row.Last)
		}
	}
}

func TestDetectFiguresRefuses(t *testing.T) {
	refuses(t, "detect-figures", map[string]string{
		"--figure 6":     `--figure: "6", want some of 7, 8, 8-loss, 9, 10`,
		"--nodes 1":      "--nodes: 1, want 2 to 64 nodes",
		"--sim-nodes 1":  "--sim-nodes: 1, want 2",
		"--samples 0":    "--samples: 0, want 1",
		"--periods 1ns":  "--periods: 1ns, want 1ms to 10s",
		"--periods soon": "--periods",
		"--swim none":    "--swim: open none",
		"--doc none":     "--doc: open none",
		"9":              `argument "9", want none`,
	})
}

// The numbers of figures are completed.
func TestDetectFiguresComplete(t *testing.T) {
	args := []string{"detect-figures", "--figure", "10,"}
	status, text, said := execute(t, append([]string{"__complete"}, args...)...)
	if status != 0 || !strings.Contains(text, "10,15\n") || strings.Contains(text, "10,10\n") {
		t.Errorf("complete %q: status %d, %s%s", args, status, text, said)
	}
}
