package graph500_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/graph500"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Only PE 0 prints, whatever happens on other PEs.
func TestProgram(t *testing.T) {
	report := filepath.Join(t.TempDir(), "out.json")
	cases := []struct {
		args           string
		status         int
		stdout, stderr string // what PE 0 must have printed
	}{
		{"--scale 6 --roots 3", 0, "bfs  harmonic_mean_TEPS:     !  ", "graph500: search 100%"},
		{"--scale 6 --roots 3 --validate none --json " + report, 0, "NBFS:                           3\n", ""},
		{"--help", 0, "Usage: oshrun [-n PES] graph500", ""},
		{"--scale 0", 2, "", `graph500: --scale: "0", want 1..31; hint: graph500 --help`},
		{"--scale 6 --json /nowhere/out.json", 1, "", "graph500: --json: /nowhere/out.json, want a file that can be created"},
		{"--scale 31", 1, "", "graph500: memory: --scale 31 --edgefactor 16 with 3 PEs needs "},
		{"--scale 1 --edgefactor 1", 1, "", "graph500: search keys: 0 found"},
	}
	onPEs(t, 3, func(t *testing.T, w *shmem.World) {
		for _, c := range cases {
			var stdout, stderr bytes.Buffer
			status := graph500.Main(strings.Fields(c.args), &stdout, &stderr)
			if status != c.status {
				t.Errorf("%s: status %d, want %d: %s", c.args, status, c.status, &stderr)
			}
			if w.MyPE() != 0 {
				if stdout.Len()+stderr.Len() > 0 {
					t.Errorf("%s: PE %d printed %s%s, want nothing", c.args, w.MyPE(), &stdout, &stderr)
				}
				continue
			}
			if !strings.Contains(stdout.String(), c.stdout) || c.stdout == "" && stdout.Len() > 0 {
				t.Errorf("%s: stdout %s\nwant %q", c.args, &stdout, c.stdout)
			}
			if !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("%s: stderr %s\nwant %q", c.args, &stderr, c.stderr)
			}
		}
	})
}

func TestReportOfARun(t *testing.T) {
	onPEs(t, 3, func(t *testing.T, w *shmem.World) {
		report := filepath.Join(t.TempDir(), "out.json")
		if status := graph500.Main([]string{"--scale", "10", "--json", report}, &bytes.Buffer{}, os.Stderr); status != 0 || w.MyPE() != 0 {
			return
		}
		raw, err := os.ReadFile(report)
		must(t, err)
		var got struct {
			Scale, PEs, NBFS int
			Rate             float64  `json:"bfs_harmonic_mean_TEPS"`
			MaxRSS           []uint64 `json:"max_rss_bytes"`
			Searches         []graph500.Search
		}
		must(t, json.Unmarshal(raw, &got))
		if got.Scale != 10 || got.PEs != 3 || got.NBFS != 64 || got.Rate <= 0 || len(got.MaxRSS) != 3 || got.MaxRSS[2] < 1<<20 {
			t.Errorf("got report %+v", got)
		}
		for i, run := range graph500.LoadVectors(t)["10"].Runs {
			s := got.Searches[i]
			if s.Root != run.Root || s.Edges != run.Edges || s.EdgesAndLoops != run.EdgesAndLoops || s.Depth != run.Depth ||
				s.Reached != run.Reached || s.Valid == nil || !*s.Valid || s.TEPS <= 0 || s.Seconds <= 0 || s.ValidateSeconds <= 0 {
				t.Errorf("search %d: %+v, want %+v", i, s, run)
			}
		}
	})
}

// All PEs alike refuse a heap that is too small before anything is generated.
func TestSmallHeapIsRefused(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		o := graph500.DefaultOptions()
		o.Scale = 20
		o.Progress = func(phase string, _, _ int) { t.Errorf("phase %s has begun, want the error before it", phase) }
		_, err := graph500.Run(w, o)
		if !errors.Is(err, shmem.ErrExhausted) || !strings.Contains(err.Error(), "--scale 20 with 3 PEs needs") ||
			!strings.Contains(err.Error(), "SHMEM_SYMMETRIC_SIZE=") {
			t.Errorf("got error %v, want one that names the heap needed", err)
		}
		// The heap is unchanged: a smaller graph runs.
		o.Scale, o.Progress = 8, nil
		if _, err := graph500.Run(w, o); err != nil {
			t.Error(err)
		}
	}, shmemtest.HeapSize(4<<20))
}

// A run frees all its symmetric memory.
func TestRunFreesItsMemory(t *testing.T) {
	onPEs(t, 2, func(t *testing.T, w *shmem.World) {
		before := w.Heap().Free
		o := graph500.DefaultOptions()
		o.Scale, o.Roots = 8, 2
		for range 3 {
			if _, err := graph500.Run(w, o); err != nil {
				t.Fatal(err)
			}
		}
		if after := w.Heap().Free; after != before {
			t.Errorf("%d bytes free before the run, %d after it", before, after)
		}
	})
}
