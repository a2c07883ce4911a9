package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	shared "github.com/goshmem/goshmem/internal/job"
)

// handedOut finds what a step has handed out among what a process has mapped: the inode and the name of each.
var handedOut = regexp.MustCompile(`(\d+) +/memfd:goshmem-(\S+)`)

// testMaps joins the job as shmem.Init does. It says what it has mapped, in a line of
// its PE, the node, and names with inodes.
func testMaps(_ []string, stdout, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	j, err := shared.Acquire(ctx)
	if err == nil {
		var maps []byte
		maps, err = os.ReadFile("/proc/self/maps")
		var all []string
		for _, found := range handedOut.FindAllSubmatch(maps, -1) {
			all = append(all, fmt.Sprintf("%s=%s", found[2], found[1]))
		}
		slices.Sort(all)
		fmt.Fprintf(stdout, "%d %s %s\n", j.PE, os.Getenv("PMIX_HOSTNAME"), strings.Join(slices.Compact(all), " "))
	}
	if err == nil {
		err = j.Release(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// A PE has mapped the segments, the failure page and the agent's page of its own node, and nothing of another node.
func TestEmulatedIsolation(t *testing.T) {
	t.Parallel()
	for _, emulate := range []string{"2", "3"} {
		j := start(t, "--emulate", emulate, "-n", "6", "t-maps")
		j.expect(0)
		owners := map[string]string{} // by mapped memory: its node
		pes := map[string][]string{}  // by node: the PEs that have segments there
		seen := map[string]string{}   // by node: what its PEs have mapped
		all := lines(j.stdout.String())
		for _, line := range all {
			words := strings.Fields(line)
			pe, node, mapped := words[0], words[1], words[2:]
			pes[node] = append(pes[node], "pe"+pe)
			if before, known := seen[node]; known && before != strings.Join(mapped, " ") {
				t.Errorf("PE %s has mapped %q, and another PE of %s %q", pe, mapped, node, before)
			}
			seen[node] = strings.Join(mapped, " ")
			for _, memory := range mapped {
				_, inode, _ := strings.Cut(memory, "=")
				if owner, known := owners[inode]; known && owner != node {
					t.Errorf("PE %s of %s has mapped %s, which is of %s", pe, node, memory, owner)
				}
				owners[inode] = node
			}
		}
		if len(all) != 6 || fmt.Sprint(len(seen)) != emulate {
			t.Fatalf("%s nodes: output %q, want a line of each of 6 PEs", emulate, all)
		}
		for node, mapped := range seen {
			var names []string
			for memory := range strings.FieldsSeq(mapped) {
				name, _, _ := strings.Cut(memory, "=")
				names = append(names, name)
			}
			want := append([]string{"agent", "failures"}, pes[node]...)
			slices.Sort(names)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("%s of %s: PEs have mapped %q, want the pages and the segments of its PEs, %q", node, emulate, names, want)
			}
		}
	}
}
