package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/ftco"
)

func TestSimFTCO(t *testing.T) {
	r := sayJSON[ftco.Report](t, "sim", "ftco", "--nodes", "1024", "--radix", "11", "--json")
	if r.Latency.Mean != 99 || r.OutSpread.Mean != 21 || r.MaxQueue.Mean != 9 || r.Options.Radix != 11 || r.Options.Nodes != 1024 {
		t.Errorf("1024 nodes, k = 11: %+v, want latency 99, output spread 21, queue 9", r)
	}
	text, err := say(t, "sim", "ftco", "--nodes", "64", "--runs", "3", "--inactive", "2", "--online", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"k = 11,", "3 runs", "FIGURE", "latency, steps", "messages per node", "longest queue"} {
		if !strings.Contains(text, want) {
			t.Errorf("sim ftco lacks %q:\n%s", want, text)
		}
	}
	shipped := sayJSON[ftco.Report](t, "sim", "ftco", "--nodes", "64", "--config", "shipped", "--radix", "4", "--json")
	if shipped.Options.Roots != "single" || shipped.Messages.Mean >= 2 {
		t.Errorf("shipped: %+v, want one root and two messages an edge", shipped)
	}
}

func TestSimFTCORefuses(t *testing.T) {
	refuses(t, "sim ftco", map[string]string{
		"--nodes 0":                        `--nodes: "0", want 1 to`,
		"--nodes many":                     "--nodes",
		"--nodes 10 --radix 11":            `--radix: "11", want 0 (the best), or 2 to 10`,
		"--topology star":                  `--topology: "star", want knomial, kary`,
		"--roots none":                     "--roots",
		"--collective scan":                "--collective",
		"--latency 10 --overhead 3":        `--latency: "10", want a multiple of the overhead, 3`,
		"--service round":                  "--service",
		"--service none --inactive 1":      "rsd or disd if nodes fail",
		"--dist pareto":                    "--dist",
		"--nodes 8 --inactive 8":           `--inactive: "8", want 0 to 7`,
		"--online -1":                      "--online",
		"--runs 0":                         "--runs",
		"--config best":                    "--config",
		"--config shipped --roots multi":   "single with --config shipped",
		"--config shipped --topology kary": "knomial with --config shipped",
		"--config shipped --nodes 4194305": "1 to 4194304",
		"--parallel 0":                     "--parallel",
		"--nodes 65536 --radix 65536":      `--radix: "65536", want at most 4096 with --roots multi`,
		"extra":                            `argument "extra", want none`,
	})
	var out, errs bytes.Buffer
	if code := Execute([]string{"sim", "weather"}, os.Stdin, &out, &errs); code != launch.StatusUsage || !strings.Contains(errs.String(), `"weather"`) {
		t.Errorf("sim weather: status %d\n%s", code, &errs)
	}
}
