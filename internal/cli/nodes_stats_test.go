package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// statsOf runs a job with --stats and returns what it has used.
func statsOf(t *testing.T, args ...string) (r statsReport) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stats.json")
	start(t, append([]string{"--stats=json:" + name}, args...)...).expect(0)
	raw, err := os.ReadFile(name)
	check(t, err)
	check(t, json.Unmarshal(raw, &r))
	return r
}

// What --stats counts of a thousand puts or gets between two nodes is what was asked for, and a few percent of headers. Gets
// of 2 KiB go by express sockets, which agents open after some of them. A run with one operation says what else the program
// does.
func TestFarStats(t *testing.T) {
	t.Parallel()
	const (
		times   = 1000
		headers = 0.05 // of the bytes
		slack   = 4096 // bytes that were under way when the last PE of a node ended
	)
	for i, test := range []string{"put", "get", "get"} {
		size := uint64([]int{4 << 10, 4 << 10, 2 << 10}[i])
		words := fmt.Sprintf("%d:%[1]d", size)
		run := func(iterations string) statsReport {
			return statsOf(t, "--emulate", "2", "-n", "4", "bench", test, "--far", "-m", words, "-x", "0", "-i", iterations)
		}
		one, all := run("1"), run("1000")
		if len(all.PEs) != 4 || len(all.Agents) != 2 || all.Agents[0].Host != "node0" || all.Agents[1].Host != "node1" {
			t.Fatalf("%s: %+v, want 4 PEs, and the agents of node0 and node1", test, all)
		}
		pe, here, there := all.PEs[0], all.Agents[0], all.Agents[1]
		data := map[string]uint64{"put": pe.Sent - one.PEs[0].Sent, "get": pe.Received - one.PEs[0].Received}[test]
		carried := map[string]uint64{"put": here.Sent - one.Agents[0].Sent, "get": here.Received - one.Agents[0].Received}[test]
		if got := pe.Operations - one.PEs[0].Operations; got != times-1 {
			t.Errorf("%s: %d operations more than with one, want %d", test, got, times-1)
		}
		for what, got := range map[string]uint64{"PE 0": data, "the agent of node0": carried} {
			if least := (times - 1) * size; got < least || float64(got) > float64(least)*(1+headers) {
				t.Errorf("%s: %d bytes of %s more than with one, want %d and at most %v of headers", test, got, what, least, headers)
			}
		}
		if pe.Batches == 0 || pe.Batches > 3*pe.Operations {
			t.Errorf("%s: %d batches of %d operations", test, pe.Batches, pe.Operations)
		}
		if distance(here.Sent, there.Received) > slack || distance(here.Received, there.Sent) > slack {
			t.Errorf("%s: agents %+v and %+v, want each to have received what the other has sent", test, here, there)
		}
	}
}

// distance returns how far two numbers are apart.
func distance(x, y uint64) uint64 { return max(x, y) - min(x, y) }

// A job of one node has no far operations, and one of several has a table of them.
func TestStatsWithAndWithoutNodes(t *testing.T) {
	t.Parallel()
	r := statsOf(t, "-n", "2", "bench", "put", "-m", "8:8", "-i", "10")
	if len(r.PEs) != 2 || r.PEs[0].Operations+r.PEs[0].Sent+r.PEs[1].Received > 0 || r.Agents == nil || len(r.Agents) > 0 {
		t.Errorf("%+v, want no far operations, and an empty array of agents", r)
	}
	start(t, "--emulate", "2", "-n", "2", "--stats", "bench", "put", "-m", "8:8", "-i", "10").expect(0,
		"\nPE   FAR  BATCHES  SENT", "\nAGENT OF  BATCHES  SENT", "\nnode0     ", "\nnode1     ")
}
