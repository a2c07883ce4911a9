package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/perftest"
)

// The tests of bench run on several nodes, and get right data there.
func TestBenchOnEmulatedNodes(t *testing.T) {
	t.Parallel()
	const sizes = 14 // 1 byte to 8 KiB
	want := map[string]int{
		"put": sizes, "put_nbi": sizes, "get": sizes, "get_nbi": sizes, "put_bw": sizes, "get_bw": sizes, "mr": sizes,
		"atomics": 8, "pingpong": sizes - 3, "barrier": 1, "broadcast": sizes, "reduce": sizes - 2, "fcollect": sizes,
		"alltoall": sizes, "collect": sizes, "alltoalls": sizes - 2, "inscan": sizes - 2, "exscan": sizes - 2,
	}
	for _, x := range [][]string{{"2", "4"}, {"3", "4", "--far"}} {
		nodes, pes, more := x[0], x[1], x[2:]
		args := append([]string{"--emulate", nodes, "-n", pes, "bench", "all", "-c", "-m", "8K", "-i", "3", "-x", "1", "-W", "4", "--json", "-"}, more...)
		j := start(t, args...)
		j.expect(0)
		var r perftest.Report
		if err := json.Unmarshal(j.stdout.Bytes(), &r); err != nil {
			t.Fatalf("%v in\n%s", err, &j.stdout)
		}
		got := map[string]int{}
		for _, row := range r.Rows {
			got[row.Test]++
		}
		if len(got) != len(want) || r.Nodes != number(nodes) || r.Far != (len(more) > 0) {
			t.Errorf("%q: %d nodes, far %v, rows of %v, want of %v", args, r.Nodes, r.Far, got, want)
		}
		for test, n := range want {
			if got[test] != n {
				t.Errorf("%q: %d rows of %s, want %d", args, got[test], test, n)
			}
		}
	}
}

// The heading says that pairs are on different nodes. What a job's nodes do not allow is refused.
func TestBenchFar(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "4", "bench", "get", "--far", "-m", "8:8", "-i", "100")
	j.expect(0)
	if got, want := j.stdout.String(), "# goshmem Get Test, 4 PEs, pairs on different nodes\n"; !strings.HasPrefix(got, want) {
		t.Errorf("output %q, want it to begin with %q", got, want)
	}
	start(t, "-n", "2", "bench", "put", "--far").expect(2, "bench: --far: all PEs are on one node, want PEs on two nodes or more; hint: oshrun --emulate 2")
	for _, test := range []string{"agree", "msg_bw"} {
		start(t, "--emulate", "2", "-n", "2", "bench", test).expect(2, "bench: nodes for test "+test+": 2, want one; hint: oshrun -n 2 bench "+test)
	}
}
