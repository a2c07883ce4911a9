// Package labtest has the checks that the tests of several measurements share.
package labtest

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/plot"
)

// CheckRefuses checks that good options pass the check, and that each change makes it fail with an error that contains
// the change's key.
func CheckRefuses[O any](t *testing.T, good func() O, check func(*O) error, changes map[string]func(*O)) {
	t.Helper()
	o := good()
	if err := check(&o); err != nil {
		t.Fatal(err)
	}
	for want, change := range changes {
		o := good()
		change(&o)
		if err := check(&o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// SeedOrders checks that calls returns one order of jobs for one seed, and another order for another seed.
func SeedOrders(t *testing.T, calls func(seed uint64) []string) {
	t.Helper()
	first := calls(1)
	if !slices.Equal(first, calls(1)) || slices.Equal(first, calls(2)) {
		t.Error("want one order for seed 1, and another for seed 2")
	}
}

// MainRefuses checks that the program of a measurement's PEs ends with exit status 1 for each list of arguments, prints
// nothing, and says on standard error what the key of the list says.
func MainRefuses(t *testing.T, program func(args []string, stdout, stderr io.Writer) int, all map[string][][]string) {
	t.Helper()
	for want, lists := range all {
		for _, args := range lists {
			var out, errs strings.Builder
			if status := program(args, &out, &errs); status != 1 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
				t.Errorf("%v: status %d, %s%s, want status 1 and %q", args, status, &out, &errs, want)
			}
		}
	}
}

// HasJSON checks that the JSON of a report, which other programs read, contains texts.
func HasJSON(t *testing.T, report any, texts ...string) {
	t.Helper()
	all, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range texts {
		if !strings.Contains(string(all), want) {
			t.Errorf("JSON lacks %s: %s", want, all)
		}
	}
}

// Draws checks that a figure can be drawn, and that the picture contains a text.
func Draws(t *testing.T, f *plot.Figure, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figure.svg")
	if err := f.Write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), text) {
		t.Errorf("%s: %v, want %q in the picture", f.Title, err, text)
	}
}
