package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A quick run has all rows that are selected, of all sides that are installed, with figures that are not zero.
func TestMPIQuick(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows.json")
	var text, log strings.Builder
	args := []string{"--quick", "--ranks", "2", "--sizes", "8,20Ki", "--rows", "latency|rate|barrier|allgather$|allgather/|scan", "--json", name}
	if err := runMPI(t.Context(), args, &text, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r mpiReport
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range r.Rows {
		got = append(got, x.Row+" "+x.Memory)
		for who, s := range x.Sides {
			if s.Median <= 0 || s.Best <= 0 || len(s.Nanos) != 1 || s.Nanos[0] <= 0 {
				t.Errorf("%s of %s: %+v, want positive figures of one round", x.Row, who, s)
			}
			if who != goshmem && x.Ratios[who] <= 0 {
				t.Errorf("%s: ratio to %s is %v, want a positive one", x.Row, who, x.Ratios[who])
			}
		}
		if want := wantSides(); !slices.Equal(slices.Sorted(maps.Keys(x.Sides)), want) {
			t.Errorf("%s has the sides %v, want %v", x.Row, x.Sides, want)
		}
		if !strings.Contains(text.String(), "| "+x.Row+" ") {
			t.Errorf("the table lacks %s:\n%s", x.Row, text.String())
		}
	}
	var want []string
	for _, row := range []string{"latency/8", "latency/20480", "rate/8", "barrier", "allgather/8", "allgather/20480", "scan/8", "scan/20480", "exscan/8", "exscan/20480"} {
		want = append(want, "2pe/"+row+" private")
		if row != "barrier" {
			want = append(want, "2pe/"+row+" symmetric")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// wantSides returns the sides of a row that this machine can measure.
func wantSides() []string {
	sides := []string{goshmem}
	for who, programs := range map[string][]string{openMPI: {"mpicc.openmpi", "mpirun.openmpi"}, mpich: {"mpicc.mpich", "mpiexec.hydra", "mpichversion"}} {
		if !slices.ContainsFunc(programs, func(p string) bool { _, err := exec.LookPath(p); return err != nil }) {
			sides = append(sides, who)
		}
	}
	slices.Sort(sides)
	return sides
}

func TestParseMPI(t *testing.T) {
	for _, args := range [][]string{
		{"--rows", "("}, {"--rounds", "0"}, {"more"}, {"--none"}, {"--ranks", "1"}, {"--ranks", "2,"}, {"--sizes", "12"}, {"--sizes", "8,x"},
		{"--sizes", "1000Mi"}, {"--memory", "far"}, {"--memory", "private,private"}, {"--behind", "0"},
	} {
		if _, err := parseMPI(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want %v", args, err, errUsage)
		}
	}
	o, err := parseMPI([]string{"--ranks", "2,8", "--sizes", "16,1Ki,4Mi", "--memory", "symmetric"}, io.Discard)
	if err != nil || !slices.Equal(o.ranks, []int{2, 8}) || !slices.Equal(o.sizes, []int{16, 1 << 10, 4 << 20}) || !slices.Equal(o.memory, []string{memorySymmetric}) {
		t.Errorf("%+v, %v, want ranks 2 and 8, sizes 16, 1 Ki and 4 Mi, and symmetric memory", o, err)
	}
}

// The operations of a row are so many that a batch has the wanted length in the geometric mean, but few enough for the
// slowest side. A side that takes more than 20 times as long as the fastest one makes its own number of them.
func TestChooseOperations(t *testing.T) {
	for _, x := range []struct {
		times      []float64 // of the sides, in us
		n, batches int
	}{
		{nil, 1, leastBatches},
		{[]float64{1, 1}, 1000, mostBatches},
		{[]float64{1, 100}, 1000, mostBatches},
		{[]float64{1, 20}, 223, mostBatches},
		{[]float64{1, 10}, 316, mostBatches},
		{[]float64{20_000, 20_000}, 1, leastBatches},
		{[]float64{2_000, 2_000}, 1, mostBatches / 2},
	} {
		m := &mpiBed{o: &mpiOptions{batch: time.Millisecond}, values: map[string]map[string][]sampled{}, slow: map[string]map[string]cell{}}
		c := cell{name: "barrier", ranks: 2}
		for i, us := range x.times {
			m.sides = append(m.sides, side{who: string(rune('a' + i))})
			m.add(m.sides[i].name(), c.row(), 0, sampled{us * 1e3, us * 1e3})
		}
		if m.choose(&c); c.n != x.n || c.batches != x.batches {
			t.Errorf("times %v us: %d operations, %d batches, want %d and %d", x.times, c.n, c.batches, x.n, x.batches)
		}
		if few := m.slow["b"][c.row()]; len(x.times) > 0 && x.times[1] > 20*x.times[0] && few.n != 10 {
			t.Errorf("times %v us: %d operations of the slow side, want 10", x.times, few.n)
		}
	}
}

// A ratio is one of times, also where the unit is a speed, and leaves out rounds without a value.
func TestMPIRatios(t *testing.T) {
	o := &mpiOptions{memory: []string{memoryPrivate}, rows: regexp.MustCompile("")}
	m := &mpiBed{o: o, values: map[string]map[string][]sampled{}, sides: []side{{who: goshmem, memory: memoryPrivate}, {who: mpich}}}
	c := cell{name: "bw", ranks: 2, bytes: 1000}
	for round, ns := range [][2]float64{{64_000, 32_000}, {0, 1}, {64_000, 32_000}} {
		m.add("goshmem private", c.row(), round, sampled{ns[0], ns[0]})
		m.add(mpich, c.row(), round, sampled{ns[1], ns[1]})
	}
	m.cells = []cell{c}
	r := mpiReport{Rows: m.rows()}
	if x := r.Rows[0]; x.Ratios[mpich] != 2 || x.Sides[goshmem].Median != 1000 || !r.isBehind("2pe/bw/1000", memoryPrivate, 1.9) || r.isBehind("2pe/bw/1000", memoryPrivate, 2) {
		t.Errorf("%+v, want 1000 MB/s, and a ratio of 2 to MPICH", x)
	}
}

// A process that outlives its parent is found and ended.
func TestEndOrphans(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "sleep 1000 >/dev/null 2>&1 &").Run(); err != nil {
		t.Fatal(err)
	}
	if n, err := endOrphans(0); n != 1 || err != nil {
		t.Errorf("%d processes were killed, %v, want 1", n, err)
	}
	if n, err := endOrphans(0); n != 0 || err != nil {
		t.Errorf("then %d processes were killed, %v, want none", n, err)
	}
}
