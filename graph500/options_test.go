package graph500

import (
	"errors"
	"strings"
	"testing"
)

func TestOptionsPrintAndParse(t *testing.T) {
	for _, args := range []string{
		"",
		"--scale 20 --edgefactor 8 --roots 3 --seed 18446744073709551615,0 --validate none",
		"-scale=4 -json=out.json",
	} {
		o, err := ParseOptions(strings.Fields(args))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		again, err := ParseOptions(strings.Fields(strings.ReplaceAll(o.String(), `"`, "")))
		if err != nil || again.String() != o.String() {
			t.Errorf("%s: printed %s, parsed %s, %v", args, o, again, err)
		}
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"--scale 0":                `--scale: "0", want 1..31; hint: graph500 --help`,
		"--scale 32":               `--scale: "32", want 1..31; hint: graph500 --help`,
		"--scale many":             `--scale: "many", want 1..31; hint: graph500 --help`,
		"--edgefactor -1":          `--edgefactor: "-1", want 1..65536; hint: graph500 --help`,
		"--roots 100000":           `--roots: "100000", want 1..65536; hint: graph500 --help`,
		"--seed 2":                 `--seed: "2", want two unsigned 64-bit numbers S1,S2; hint: --seed 2,3 is the default`,
		"--seed 2,-3":              `--seed: "2,-3", want two unsigned 64-bit numbers S1,S2; hint: --seed 2,3 is the default`,
		"--validate some":          `--validate: "some", want full or none; hint: graph500 --help`,
		"--json=":                  `--json: "", want a file name; hint: graph500 --help`,
		"20":                       `argument: "20", want flags only; hint: graph500 --help`,
		"--scal 20":                `command line: flag provided but not defined: -scal, want --scale,`,
		"--scale 99 --roots 0":     `--roots: "0", want 1..65536`,
		"--scale 10 --edgefactor=": `--edgefactor: "", want 1..65536`,
	} {
		_, err := ParseOptions(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
}

func TestHelpDocumentsEveryFlag(t *testing.T) {
	if _, err := ParseOptions([]string{"--help"}); !errors.Is(err, errHelp) {
		t.Errorf("--help: %v", err)
	}
	var out strings.Builder
	Usage(&out)
	for _, want := range []string{
		"--scale", "(default 16)", "--edgefactor", "--roots", "(default 64)", "--seed", "(default 2,3)",
		"--validate full|none", "(default full)", "--json", "--help",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("usage does not mention %s", want)
		}
	}
}

func TestTooLargeIsRefusedWithFigures(t *testing.T) {
	o := DefaultOptions()
	o.Scale = 30
	err := fitsMachine(o, 2, 8<<30)
	for _, want := range []string{"--scale 30", "2 PEs", "GiB", "8.0 GiB available", "hint: --scale 24 fits here"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
	o.Scale = 20
	if err := fitsMachine(o, 2, 8<<30); err != nil {
		t.Errorf("scale 20: %v", err)
	}
	if err := fitsMachine(o, 2, 0); err != nil {
		t.Errorf("unknown memory: %v", err)
	}
}

// A run at scale 20 with 2 PEs needs at most 300 MiB.
func TestNeedAtScale20(t *testing.T) {
	o := DefaultOptions()
	o.Scale = 20
	if n := needOf(o, 2); n.total() > 300<<20 || n.symmetric > 64<<20 {
		t.Errorf("need %s symmetric and %s in all, want at most 64 MiB and 300 MiB", formatBytes(n.symmetric), formatBytes(n.total()))
	}
}
