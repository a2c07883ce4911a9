package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/figures"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/ftco"
)

// TestSimFigures draws all figures for few nodes.
func TestSimFigures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "pictures")
	r := sayJSON[figuresReport](t, "sim", "figures", dir, "--nodes", "1024", "--runs", "4", "--json")
	if len(r.Figures) != len(figures.Names()) || r.Nodes != 1024 || r.Runs != 4 {
		t.Fatalf("%+v, want %d figures", r, len(figures.Names()))
	}
	says := map[string]string{}
	for i, f := range r.Figures {
		if f.Figure != figures.Names()[i] || len(f.Files) != 1 || f.Says == "" {
			t.Errorf("figure %d: %+v, want %s in one file", i, f, figures.Names()[i])
		}
		says[f.Figure] = f.Says
		for _, file := range f.Files {
			if st, err := os.Stat(file); err != nil || st.Size() < 1000 || filepath.Dir(file) != dir {
				t.Errorf("%s: %v, want a picture", file, err)
			}
		}
	}
	for name, want := range map[string]string{
		"ftco-figure-7":        "all 10 points exact; the other trees, of which an independent simulation is at hand: all 30 points exact",
		"ftco-figure-8":        "3 points",
		"ftco-figure-10":       "6 points",
		"ftco-table-2-latency": "published points only; use --nodes 65536 to compute ours",
		"agreement-figure-2a":  "log 1.00 and linear 4.83 times the allreduce",
		"agreement-figure-2b":  "256 dead: 2.77 times the allreduce of those left, published 2.6; rebalanced at worst 1.00",
	} {
		if !strings.Contains(says[name], want) {
			t.Errorf("figure %s has the text %q, want %q", name, says[name], want)
		}
	}
}

// TestSimFiguresOnly draws one figure, and prints its text in lines.
func TestSimFiguresOnly(t *testing.T) {
	dir := t.TempDir()
	text, err := say(t, "sim", "figures", dir, "--nodes", "1024", "--only", "agreement-figure-2a")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || !strings.HasPrefix(text, filepath.Join(dir, "agreement-figure-2a.svg\n")) {
		t.Errorf("%v, %v: %s", err, files, text)
	}
}

func TestSimFiguresRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"", "want one: the directory", launch.StatusUsage},
		{"a b", "2 arguments, want one", launch.StatusUsage},
		{dir + " --nodes 512", `--nodes: "512", want 1024 to 65536`, launch.StatusUsage},
		{dir + " --runs 0", "--runs", launch.StatusUsage},
		{dir + " --spread -1", "--spread", launch.StatusUsage},
		{dir + " --parallel 0", "--parallel", launch.StatusUsage},
		{dir + " --only figure", "want ftco-figure-7, ", launch.StatusUsage},
		{file + " --only agreement-figure-2a", "not a directory", launch.StatusError},
	} {
		var out, errs bytes.Buffer
		code := Execute(append([]string{"sim", "figures"}, strings.Fields(c.args)...), os.Stdin, &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
			t.Errorf("sim figures %s: status %d, want %d, and %q:\n%s%s", c.args, code, c.code, c.want, &errs, &out)
		}
	}
}

// TestSimFTCOPlot draws the distribution of the latency. Files of another kind are refused before the simulation.
func TestSimFTCOPlot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.svg")
	r := sayJSON[ftco.Report](t, "sim", "ftco", "--nodes", "256", "--radix", "14", "--inactive", "3", "--runs", "50", "--plot", file, "--json")
	svg, err := os.ReadFile(file)
	if err != nil || r.Options.Runs != 50 {
		t.Fatalf("%v; %+v", err, r)
	}
	for _, want := range []string{"<svg", "allreduce, 256 nodes, k = 14: 50 runs", "latency, steps", "3 inactive"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the figure lacks %q", want)
		}
	}
	for args, want := range map[string]struct {
		text string
		code int
	}{
		"--plot a.pdf": {`--plot: "a.pdf", want a name that ends in .svg`, launch.StatusUsage},
		"--nodes 16 --runs 1048576 --plot " + filepath.Join(dir, "none", "a.svg"): {"no such file", launch.StatusError},
	} {
		var out, errs bytes.Buffer
		code := Execute(append([]string{"sim", "ftco"}, strings.Fields(args)...), os.Stdin, &out, &errs)
		if code != want.code || !strings.Contains(errs.String(), want.text) {
			t.Errorf("sim ftco %s: status %d, want %d, and %q:\n%s%s", args, code, want.code, want.text, &errs, &out)
		}
	}
}
