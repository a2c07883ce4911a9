package perftest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/perftest"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// call runs the program on this PE; PE 0 alone may print.
func call(t *testing.T, w *shmem.World, args string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = perftest.Main(strings.Fields(args), &out, &errs)
	if w.MyPE() != 0 && out.Len()+errs.Len() > 0 {
		t.Errorf("%s: PE %d prints %s%s", args, w.MyPE(), &out, &errs)
	}
	return status, out.String(), errs.String()
}

// Every test measures right data, with any number of PEs that it allows.
func TestAll(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} {
		report := filepath.Join(t.TempDir(), "report.json")
		shmemtest.Run(t, n, func(t *testing.T, w *shmem.World) {
			if w.MyPE() == 0 {
				report = filepath.Join(t.TempDir(), "report.json")
			}
			status, out, errs := call(t, w, "all --validate -m 100K -i 3 -x 1 -W 4 --json "+report)
			if status != 0 || errs != "" {
				t.Fatalf("%d PEs: status %d, %s", n, status, errs)
			}
			if w.MyPE() == 0 {
				checkReport(t, report, n, out)
			}
		})
	}
}

// checkReport checks that every test that n PEs allow is there, once a size,
// with figures that can be.
func checkReport(t *testing.T, name string, n int, tables string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r perftest.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.PEs != n {
		t.Errorf("report of %d PEs, want %d", r.PEs, n)
	}
	const sizes = 17 // 1 byte to 64 KiB
	want := map[string]int{
		"barrier": 1, "broadcast": sizes, "reduce": sizes - 2, "fcollect": sizes, "alltoall": sizes,
		"collect": sizes, "alltoalls": sizes - 2, "inscan": sizes - 2, "exscan": sizes - 2, "agree": 1,
	}
	if n >= 2 {
		for _, x := range []string{"put", "put_nbi", "get", "get_nbi", "put_bw", "get_bw", "msg_pingpong", "msg_bw"} {
			want[x] = sizes
		}
		want["atomics"], want["pingpong"] = 8, sizes-3
	}
	if n%2 == 0 {
		want["mr"] = sizes
	}
	got := map[string]int{}
	lines := 0
	for _, x := range r.Rows {
		got[x.Test]++
		lines++
		if x.AvgUS <= 0 || x.MinUS > x.AvgUS || x.MaxUS != 0 && x.MaxUS < x.AvgUS || x.Iterations != 3 {
			t.Errorf("row %+v", x)
		}
		if x.Test == "put_bw" && (x.MBPerS < 0.99*float64(x.Bytes)/x.AvgUS || x.MBPerS > 1.01*float64(x.Bytes)/x.AvgUS) {
			t.Errorf("row %+v: bandwidth is not size by time", x)
		}
	}
	for x, k := range want {
		if got[x] != k {
			t.Errorf("%d PEs: %d rows of %s, want %d", n, got[x], x, k)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d PEs: rows of %v, want of %v", n, got, want)
	}
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "#") && line != "\n" {
			lines--
		}
	}
	if lines != 0 {
		t.Errorf("%d rows more in the report than in the tables", lines)
	}
}

// The columns are those of the OSU benchmarks.
func TestColumns(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		for _, x := range [][2]string{
			{"put", "# goshmem Put Test, 2 PEs\n# Size          Latency (us)\n8"},
			{"mr", "# goshmem Put Message Rate Test, 2 PEs\n# Size          Bandwidth (MB/s)          Messages/s\n8"},
			{"atomics", "# goshmem Atomic Operations Test, 2 PEs\n# Operation                Million ops/s    Latency (us)\nshmem_fadd"},
			{"barrier", "# goshmem Barrier Test, 2 PEs\n#    Avg Latency(us)   Min Latency(us)   Max Latency(us)   Iterations\n"},
		} {
			test, want := x[0], x[1]
			status, out, errs := call(t, w, test+" -m 8:8 -i 2")
			if status != 0 || w.MyPE() == 0 && !strings.HasPrefix(out, want) {
				t.Errorf("%s: status %d, %s\n%s\nwant\n%s", test, status, errs, out, want)
			}
		}
	})
}

// A report can be compared with, and other files cannot.
func TestCompare(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		dir := t.TempDir()
		good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
		if w.MyPE() == 0 {
			text := `{"program": "goshmem bench", "version": 1, "pes": 2, "rows": [{"test": "put", "bytes": 8, "iterations": 1, "avg_us": 1e6}]}`
			if os.WriteFile(good, []byte(text), 0o600) != nil || os.WriteFile(bad, []byte(`{}`), 0o600) != nil {
				t.Fatal("cannot write")
			}
		}
		if status, out, errs := call(t, w, "put -m 8:16 -i 10 --compare "+good); status != 0 {
			t.Errorf("status %d, %s", status, errs)
		} else if lines := strings.Split(out, "\n"); w.MyPE() == 0 &&
			(!strings.HasSuffix(lines[1], "Before (us)  Time ratio") || !strings.Contains(lines[2], " 1000000.000       0.000") || !strings.HasSuffix(lines[3], "               -           -")) {
			t.Errorf("comparison\n%s", out)
		}
		for _, x := range [][2]string{{bad, `program ""`}, {dir, "--compare: read"}, {filepath.Join(dir, "none"), "no such file"}} {
			file, want := x[0], x[1]
			if status, out, errs := call(t, w, "put -i 1 --compare "+file); status != 1 || out != "" || w.MyPE() == 0 && !strings.Contains(errs, want) {
				t.Errorf("%s: status %d, %s%s, want %q", file, status, out, errs, want)
			}
		}
		if status, _, errs := call(t, w, "put -i 1 --json /nowhere/x.json"); status != 1 || w.MyPE() == 0 && !strings.Contains(errs, "--json: open /nowhere/x.json") {
			t.Errorf("status %d, %s", status, errs)
		}
	})
}

// What makes no sense is refused in words.
func TestUsage(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		for _, x := range [][2]string{
			{"", "bench: test: none, want one of put, put_nbi"},
			{"putt", `bench: test: "putt", want one of put`},
			{"mr", "bench: PEs for test mr: 3, want an even number; hint: oshrun -n 2 bench mr"},
			{"put -i 0", "bench: --iterations: 0, want 1 to 1073741824"},
			{"put -x -1", "bench: --warmup: -1, want 0"},
			{"put -W 0", "bench: --window: 0, want 1"},
			{"put -m 9:8", `bench: --message-size: "9:8", want MAX or MIN:MAX`},
			{"put -m 4G", `bench: --message-size: "4G"`},
			{"put -m 0", `bench: --message-size: "0"`},
			{"put --no-thing", "flag provided but not defined: -no-thing"},
		} {
			args, want := x[0], x[1]
			if status, out, errs := call(t, w, args); status != 2 || out != "" || w.MyPE() == 0 && !strings.Contains(errs, want) {
				t.Errorf("%q: status %d, %s%s\nwant %s", args, status, out, errs, want)
			}
		}
		for _, args := range []string{"help", "--help", "put -h"} {
			if status, out, errs := call(t, w, args); status != 0 || errs != "" || w.MyPE() == 0 && !strings.HasPrefix(out, "Usage: oshrun -n PES bench TEST") {
				t.Errorf("%q: status %d, %s%s", args, status, out, errs)
			}
		}
	})
}

// A reader of standard output gets the report alone.
func TestReportOnStdout(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		status, out, errs := call(t, w, "put atomics barrier -m 64:64 -i 2 --json -")
		if status != 0 || w.MyPE() != 0 {
			if status != 0 {
				t.Error(errs)
			}
			return
		}
		var r perftest.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 10 {
			t.Errorf("%v in\n%s", err, out)
		}
	})
}

// With --time the iterations of each size are repeated until that time has passed, in all kinds of tests one after the other: of one PE, of pairs that
// measure for themselves, of two PEs, and of all. On a busy machine the first iterations of some sizes may take that long.
func TestTime(t *testing.T) {
	const least = 5 * time.Millisecond
	shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
		begin := time.Now()
		status, out, errs := call(t, w, "mr put barrier pingpong atomics reduce msg_pingpong -m 64:64 -i 3 -x 1 -W 2 -c --json - --time "+least.String())
		if status != 0 {
			t.Error(errs)
		}
		if status != 0 || w.MyPE() != 0 {
			return
		}
		var r perftest.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		repeated := 0
		for _, row := range r.Rows {
			if row.Iterations%3 != 0 {
				t.Errorf("%s %s: %d iterations, want a multiple of 3", row.Test, row.Op, row.Iterations)
			}
			if row.Iterations > 3 {
				repeated++
			}
		}
		if took := time.Since(begin); repeated == 0 || took < time.Duration(len(r.Rows))*least {
			t.Errorf("%d rows in %v, %d of them with more than 3 iterations, want at least %v for each", len(r.Rows), took, repeated, least)
		}
	})
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		if status, _, errs := call(t, w, "barrier --time 2h"); status != 2 || !strings.Contains(errs, "bench: --time: 2h0m0s, want 0s to 1h0m0s; hint: --time 20s") {
			t.Errorf("status %d, %s", status, errs)
		}
	})
}
