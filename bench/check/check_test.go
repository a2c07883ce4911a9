package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/bench"
)

func TestMedianAndRatio(t *testing.T) {
	for _, x := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{5, 1, 100}, 5}} {
		if got := median(x.values); got != x.want {
			t.Errorf("median of %v is %v, want %v", x.values, got, x.want)
		}
	}
	// The second round was twice as slow for both.
	if got := ratio([]float64{1, 2, 1}, []float64{2, 4, 2}); got != 0.5 {
		t.Errorf("ratio %v, want 0.5", got)
	}
}

// Each kind of bound can be kept and missed. A missing peer is skipped with the
// cause, but the absolute bound of the same row still holds.
func TestVerdicts(t *testing.T) {
	none := map[string]string{oshmem: "oshcc is not installed", plainC: "gcc is not installed"}
	for _, x := range []struct {
		name         string
		row          string
		ours, theirs []float64
		missing      map[string]string
		want         string
	}{
		{"kept", "p/8", []float64{4, 5, 6}, []float64{20, 20, 20}, nil, verdictOK},
		{"too slow", "p/8", []float64{5.1}, []float64{20}, nil, verdictMiss},
		{"not below the peer", "p/8", []float64{4}, []float64{4}, nil, verdictMiss},
		{"peer missing", "p/8", []float64{4}, nil, none, verdictSkipped + "oshcc is not installed"},
		{"too slow, peer missing", "p/8", []float64{6}, nil, none, verdictMiss},
		{"peer without this row", "p/8", []float64{4}, nil, nil, verdictMiss},
		{"not measured", "p/8", nil, []float64{20}, nil, verdictMiss},
		{"factor kept", "fetch_add/8", []float64{9}, []float64{6}, nil, verdictOK},
		{"factor missed", "fetch_add/8", []float64{9.1}, []float64{6}, nil, verdictMiss},
		{"tolerance costs little", "4pe/ft_barrier", []float64{1.09}, []float64{1}, none, verdictOK},
		{"tolerance costs much", "4pe/ft_barrier", []float64{1.11}, []float64{1}, none, verdictMiss},
		{"a slow agreement", "8pe/agree", []float64{1.11}, []float64{1}, none, verdictMiss},
		{"at least, kept", rowTEPS, []float64{500}, nil, none, verdictOK},
		{"at least, missed", rowTEPS, []float64{499}, nil, none, verdictMiss},
		{"no allocation", rowAllocations, []float64{0}, nil, none, verdictOK},
		{"an allocation", rowAllocations, []float64{1}, nil, none, verdictMiss},
	} {
		v := values{goshmem: {x.row: x.ours}, oshmem: {x.row: x.theirs}, plainC: {x.row: x.theirs}, strict: {x.row: x.theirs}, allreduce: {x.row: x.theirs}}
		got := lines(v, x.missing, regexp.MustCompile("^"+x.row+"$"), true)
		if len(got) == 0 || got[0].Verdict != x.want {
			t.Errorf("%s: %+v, want verdict %q", x.name, got, x.want)
		}
	}
	free := limit{row: "p/8", peer: oshmem}
	if got := free.verdict(&line{}, 1, 1, ""); got != "" {
		t.Errorf("a comparison without a bound has the verdict %s", got)
	}
	v := values{goshmem: {"put/1048576" + noStrings: {1.1}}, plainC: {"put/1048576": {1}}}
	if got := lines(v, nil, regexp.MustCompile(noStrings), true); got[0].Ratio != 1.1 || got[0].Verdict != verdictOK {
		t.Errorf("compared with a peer's row of another name: %+v, want a ratio of 1.1 and %q", got[0], verdictOK)
	}
	for _, l := range lines(values{}, nil, regexp.MustCompile(""), false) {
		if l.Verdict != "" {
			t.Errorf("%s has the verdict %s in a quick run", l.Row, l.Verdict)
		}
	}
}

// Each row is in one group only, and no comparison is made twice.
func TestRowsAreOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range allLimits() {
		if key := l.row + " " + l.peer; seen[key] {
			t.Errorf("%s is compared with %q twice", l.row, l.peer)
		} else {
			seen[key] = true
		}
	}
}

// The document keeps the text around the report, and the next report replaces
// this one.
func TestReplaceSection(t *testing.T) {
	doc := filepath.Join(t.TempDir(), "doc.md")
	write := func(s string) {
		if err := os.WriteFile(doc, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + sectionBegin + "old\n" + sectionEnd + "after\n")
	for _, text := range []string{"one", "two"} {
		if err := replaceSection(doc, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(doc)
	if want := "before\n" + sectionBegin + "\ntwo\n\n" + sectionEnd + "after\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	write("no markers\n")
	if err := replaceSection(doc, "x"); err == nil || !strings.Contains(err.Error(), "bench-check: begin") {
		t.Errorf("without markers: %v, want an error", err)
	}
}

func TestParagraph(t *testing.T) {
	word := strings.Repeat("x", 59)
	for text, want := range map[string]string{
		"a  b":                                 "a b\n\n",
		word + " " + word + " y":               word + " " + word + "\ny\n\n",
		word + " " + word + "z " + word:        word + " " + word + "z\n" + word + "\n\n",
		strings.Repeat("x", 200) + " and more": strings.Repeat("x", 200) + "\nand more\n\n",
	} {
		var b bytes.Buffer
		if writeParagraph(&b, text); b.String() != want {
			t.Errorf("%q is written as %q, want %q", text, b.String(), want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"--rows", "("}, {"--rounds", "0"}, {"more"}, {"--none"}} {
		if _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want %v", args, err, errUsage)
		}
	}
}

func TestRead(t *testing.T) {
	all, err := bench.Read(strings.NewReader(`{"name":"p","bytes":8,"ns_per_op":1.5}` + "\n" + `{"name":"barrier","bytes":0,"ns_per_op":2}`))
	if err != nil || len(all) != 2 || all[0].Row() != "p/8" || all[1].Row() != "barrier" {
		t.Errorf("read %v, %v, want p/8 and barrier", all, err)
	}
	for _, bad := range []string{"oshrun: hello", `{"name":"p","bytes":8}`, `{"ns_per_op":1}`} {
		if _, err := bench.Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
