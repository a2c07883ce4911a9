package daemon

import (
	"errors"
	"slices"
	"testing"
)

// Two jobs have one file of passages, until one of them is over. Then none is made any more.
func TestPassages(t *testing.T) {
	var p passages
	a, b, c := &localJob{number: 0, near: []int{0, 1}}, &localJob{number: 3, near: []int{0}}, &localJob{number: 5, near: []int{0}}
	sizes := map[int64]int{}
	for _, pair := range [][2]*localJob{{a, b}, {b, a}, {a, c}} {
		f, err := p.lend(pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		sizes[info.Size()]++
	}
	joined := p.joined(0)
	slices.Sort(joined)
	if len(p.files) != 2 || len(sizes) != 1 || !slices.Equal(joined, []int{3, 5}) || !slices.Equal(p.joined(3), []int{0}) {
		t.Errorf("%d files of sizes %v, job 0 is joined to %v, want 2 files of one size and jobs 3 and 5", len(p.files), sizes, joined)
	}
	if err := p.drop(3); err != nil {
		t.Fatal(err)
	}
	if _, err := p.lend(a, b); !errors.Is(err, errEnding) || !slices.Equal(p.joined(0), []int{5}) {
		t.Errorf("passages to a job that is over: %v, want %v", err, errEnding)
	}
	if err := errors.Join(p.drop(0), p.drop(5)); err != nil || len(p.files) != 0 {
		t.Errorf("%d files are left, %v", len(p.files), err)
	}
}
