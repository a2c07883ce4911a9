package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// appOf reads a program: "-n 4 -N 2 -M 3 -H a:2,b -F text", where -M limits the hosts, with ; for the ends of lines in the text.
func appOf(t *testing.T, words string) (app App) {
	t.Helper()
	var err error
	fields := strings.Fields(words)
	for i := 0; i < len(fields); i += 2 {
		value := fields[i+1]
		switch fields[i] {
		case "-n":
			_, err = fmt.Sscan(value, &app.PEs)
		case "-N":
			_, err = fmt.Sscan(value, &app.PerNode)
		case "-M":
			_, err = fmt.Sscan(value, &app.MostNodes)
		case "-H":
			app.ListFrom = "--host " + value
			app.List, err = ParseHostList("--host", value)
		case "-F":
			app.FileFrom = "--hostfile hosts"
			app.File, err = ParseHostfile("hosts", strings.NewReplacer(";", "\n", "_", " ").Replace(value))
		}
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
	}
	return app
}

// isHere takes this machine's name with and without a domain.
func isHere(host string) bool {
	return host == "here" || strings.HasPrefix(host, "here.") || host == "localhost"
}

// jobOf reads a job: programs with " : " between them, and policies behind " | ".
func jobOf(t *testing.T, line string) *Job {
	t.Helper()
	j := &Job{Processors: 4, MostPerNode: 1024, IsHere: isHere}
	line, policies, _ := strings.Cut(line, " | ")
	for words := range strings.SplitSeq(line, " : ") {
		j.Apps = append(j.Apps, appOf(t, words))
	}
	for p := range strings.FieldsSeq(policies) {
		if list, ok := strings.CutPrefix(p, "slurm="); ok {
			entries, err := ParseHostList("", list)
			if err != nil {
				t.Fatal(err)
			}
			j.Given = &Allocation{From: SlurmName}
			for i := range entries {
				j.Given.Hosts = append(j.Given.Hosts, entries[i].Host)
			}
			continue
		}
		switch p {
		case "by-node":
			j.By = ByNode
		case "seq":
			j.By = BySeq
		case "rank-slot":
			j.Rank = RankSlot
		case "rank-node":
			j.Rank = RankNode
		case "over":
			j.Over = OverAllowed
		case "no-over":
			j.Over = OverForbidden
		default:
			t.Fatalf("policy %q", p)
		}
	}
	return j
}

// writeLayout writes the PEs of each node: "a:0-1 b:2", with a star if they are not consecutive.
func writeLayout(l *Layout) string {
	if l == nil {
		return ""
	}
	var words []string
	for _, n := range l.Nodes {
		words = append(words, n.Host.Name+":"+FormatList(n.PEs))
	}
	if !l.Block {
		words = append(words, "*")
	}
	return strings.Join(words, " ")
}

// The table is what Open MPI 4.1.4 does (mpirun --do-not-launch --display-map), and a few rows where
// this package is meant to do more, which say so.
func TestLay(t *testing.T) {
	checkLays(t, map[string]string{
		// How many PEs, and slots.
		"-H a:2,b:2 -n 3":           "a:0-1 b:2",
		"-H a,b,a -n 3":             "a:0-1 b:2",
		"-H a:2,b:2":                "a:0-1 b:2-3",
		"-H b:2,a:1,b:1 -n 4":       "b:0-2 a:3",
		"-F a_slots=2;b_slots=3":    "a:0-1 b:2-4",
		"-F a;a;b_slots=1":          "a:0-1 b:2",
		"-F a":                      "a:0-3", // 4 processors
		"-H a:*":                    "a:0-3",
		"-F a_slots=2;b;a_slots=1":  "a:0-2 b:3-6", // more: Open MPI refuses slots on two lines
		"-F a;a_slots=2":            "a:0-2",       // likewise
		"-F a:2;b:1":                "a:0-1 b:2",
		"-F a_max-slots=3":          "a:0-2", // never more slots than max-slots
		"-H a,a.example.org,A -n 3": "a:0-2",
		"-H 10.0.0.1,10.0.0.2 -n 2": "10.0.0.1:0 10.0.0.2:1",
		"-H a.x:1,a.y:1":            "a.x:0 a.y:1",
		"-H a:1,a.x:1,a.y:1":        "a:0-1 a.y:2", // a is a.x, so a.y is another host
		"-H here.x:1,here.y:1":      "here.x:0 here.y:1",
		"-H here:1,here.x:1":        "here:0-1",
		"-H localhost:1,here.x:1":   "localhost:0-1",
		"-H here,localhost:2 -n 3":  "here:0-2",
		"-H here -n 3":              "here:0-2", // more: this machine alone takes any number
		"-H here:2,a:1 -n 3":        "here:0-1 a:2",
		"-H a:1,b:1,c:1 -n 1":       "a:0",         // hosts without PEs drop out
		"-H a,b -N 2":               "a:0-1 b:2-3", // more: the slots are not written

		// Mapping and ranking.
		"-H a:4,b:4 -n 6 | by-node":                               "a:0,2,4 b:1,3,5 *",
		"-H a:4,b:4 -n 6 | by-node rank-slot":                     "a:0-2 b:3-5",
		"-H a:4,b:4 -n 6 | rank-node":                             "a:0,2,4-5 b:1,3 *",
		"-H a:1,b:4 -n 5 | by-node":                               "a:0 b:1-4",
		"-H a:2,b:1,c:3 -n 6 | by-node":                           "a:0,3 b:1 c:2,4-5 *",
		"-H a:2,b:1,c:3 -n 6 | by-node rank-slot":                 "a:0-1 b:2 c:3-5",
		"-F a_slots=2;b_slots=2;c_slots=2 -n 5 | by-node no-over": "a:0,3 b:1,4 c:2 *",
		"-H a,b -n 2 | by-node":                                   "a:0 b:1",

		// More PEs than slots.
		"-H a:1,b:4 -n 8 | over":                                     "a:0-2 b:3-7",
		"-H a:1,b:4 -n 9 | over":                                     "a:0-2 b:3-8",
		"-H a:1,b:4 -n 3 | over":                                     "a:0 b:1-2",
		"-H a:1,b:4 -n 5 | over by-node":                             "a:0 b:1-4",
		"-H a:1,b:4 -n 7 | over by-node":                             "a:0,2,4,6 b:1,3,5 *",
		"-F a_slots=1_max-slots=2;b_slots=2_max-slots=3 -n 5 | over": "a:0-1 b:2-4",
		"-F a_slots=1_max-slots=1;b_slots=1 -n 5 | over by-node":     "a:0 b:1-4",

		// PEs on each node.
		"-H a:4,b:4 -N 2":                "a:0-1 b:2-3",
		"-H a:4,b:4 -N 2 -n 3":           "a:0-1 b:2",
		"-H a:4,b:4 -N 2 -n 3 | by-node": "a:0,2 b:1 *",
		"-F a_slots=2;b_slots=2 -N 1":    "a:0 b:1",
		"-H a,b -N 2 | over":             "a:0-1 b:2-3",
	})
}

// So does this table, of several programs, and of hosts that are chosen among others.
func TestLayChoices(t *testing.T) {
	checkLays(t, map[string]string{
		// Several programs.
		"-H a:2,b:2 -n 1 : -n 3":             "a:0-1 b:2-3",
		"-H a:2 -n 2 : -H b:2 -n 2":          "a:0-1 b:2-3",
		"-H a:3,b:2 -n 2 : -n 3 | by-node":   "a:0,2,4 b:1,3 *",
		"-H a:3,b:2 -n 1 : -n 3 | by-node":   "a:0-1,3 b:2 *",
		"-H a:3,b:2 -n 2 : -n 3 | rank-node": "a:0-2 b:3-4",
		"-H a:2,b:2 -n 5 : -n 2 | over":      "a:0-2,5 b:3-4,6 *",
		"-H a:4 -n 2 : -H a:4 -n 2":          "a:0-3",
		"-H a:4,b:4 -N 1 -n 2 : -N 1 -n 2":   "a:0,2 b:1,3 *",
		"-F a_slots=2;b_slots=2 -n 2 : -n 2": "a:0-1 b:2-3",
		"-F a:1;b:1 -n 2 : -F c:2;d:2 -n 3":  "a:0 b:1 c:2-3 d:4",

		// --host chooses.
		"-F a:2;b:2;c:2 -H b,b -n 2":          "b:0-1",
		"-F a:2;b:2;c:2 -H b:5 -n 5":          "b:0-4",
		"-F a:2;b:2;c:2 -H c,a -n 2":          "c:0 a:1",
		"-F a:2;b:2;c:2 -H b":                 "b:0",
		"-F a:2;b:2;c:2 -H b:*":               "b:0-1",
		"-F a:2;b:2;c:2 -H +n1":               "b:0-1",
		"-F a:2;b:2;c:2 -H +n2,+n0:1 -n 3":    "c:0-1 a:2",
		"-F a:2;b:2;c:2 -H +e:2 -n 4":         "a:0-1 b:2-3",
		"-F a:2;b:2;c:2 -n 1 : -H +e -n 4":    "a:0 b:1-2 c:3-4",
		"-F a:2;b:2 -H b.example.org":         "b:0",
		" | slurm=n1:4,n2:4":                  "n1:0-3 n2:4-7",
		"-n 3 | slurm=n1:4,n2:4":              "n1:0-2",
		"-n 3 | slurm=n1,n2 by-node":          "n1:0,2 n2:1 *",
		"-H n2:3 | slurm=n1:4,n2:4":           "n2:0-2",
		"-H +n1 | slurm=n1:4,n2:4":            "n2:0-3",
		"-F n2 | slurm=n1:4,n2:4":             "n2:0-3",
		"-F n2_slots=2;+n0 | slurm=n1:4,n2:4": "n2:0-1 n1:2-5",
		"-H localhost:2 | slurm=n1:4,here:4":  "here:0-1",
		"-M 2 | slurm=n1:2,n2:2,n3:2":         "n1:0-1 n2:2-3",

		// The hosts of each program are limited by itself.
		"-M 1 -n 2 : -M 3 -n 4 | slurm=n1:2,n2:2,n3:2":                 "n1:0-1 n2:2-3 n3:4-5",
		"-M 1 -n 2 : -n 3 | slurm=n1:2,n2:2,n3:2":                      "n1:0-1 n2:2-3 n3:4",
		"-H n3:1,n1:1 -M 1 : -H n2:1,n1:1 -M 2 | slurm=n1:1,n2:1,n3:1": "n3:0 n2:1 n1:2",

		// PE by PE.
		"-H a,b,a | seq":                    "a:0,2 b:1 *",
		"-F a_slots=3;b;a -n 2 | seq":       "a:0 b:1",
		"-F a;b;c -n 2 : -n 1 | seq":        "a:0 b:1 c:2",
		"-F a;b -n 1 : -H c,d -n 2 | seq":   "a:0 c:1 d:2",
		" | slurm=n1:4,n2:4 seq":            "n1:0 n2:1",
		"-H n2,n1,n2 | slurm=n1:4,n2:4 seq": "n2:0,2 n1:1 *",
	})
}

// checkLays compares the layouts of jobs, by their lines.
func checkLays(t *testing.T, rows map[string]string) {
	t.Helper()
	for line, want := range rows {
		l, err := jobOf(t, line).Lay()
		if got := writeLayout(l); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
			continue
		}
		checkLayout(t, jobOf(t, line), l)
	}
}

// Bad requests are refused, and the error names the numbers.
func TestLayErrors(t *testing.T) {
	for line, want := range map[string]string{
		"-H a:2,b:2 -n 5":                      "5 PEs, want at most 4: the slots of a (2), b (2)",
		"-H a:2,b:2 -n 5 | no-over":            "5 PEs, want at most 4",
		"-H here:2 -n 3 | no-over":             "3 PEs, want at most 2: the slots of here (2)",
		"-H a,b,c,d,e,f -n 7":                  "the slots of a (1), b (1), c (1), d (1) and 2 more",
		"-H a:4,b:4 -N 2 -n 6":                 "6 PEs, want at most 4: 2 on each of 2 hosts",
		"-H a:1,b:4 -N 2":                      "4 PEs, want at most 3: the slots of a (1), b (4)",
		"-F a:1;b:1 -n 3 | by-node":            "3 PEs, want at most 2",
		"-F a_slots=1_max-slots=2 -n 3 | over": "3 PEs, want at most 2: the max-slots of 1 host",
		"-H a:2 -n 2 : -H a:2 -n 1":            "1 PE, want at most 0: the slots of a (2, 2 taken)",
		"-H a:5 -n 1025 | over":                "1025 PEs, want at most 1024: 1024 on each of 1 host",
		"-H a:1048576,b:1048576 -n 1048577":    "1048577 PEs, want at most 1048576 of a job",
		"-H here -n 2000000000":                "2000000000 PEs, want at most 1048576",
		"-F a:2;b:2 -H z -n 1":                 "--host z: host z, want one of --hostfile hosts: a, b",
		"-F a;b;c;d;e;f -H z -n 1":             "a, b, c, d and 2 more",
		"-H z | slurm=n1:4,n2:4":               "host z, want one of Slurm's allocation: n1, n2",
		"-F n1;z | slurm=n1:4,n2:4":            "hosts: line 2: host z, want one of Slurm",
		"-H n1:5 | slurm=n1:4,n2:4":            "5 slots of host n1, want at most 4, which it has in Slurm's allocation",
		"-H localhost | slurm=n1:4,n2:4":       "host localhost, want one of Slurm",
		"-H +n0 -n 1":                          "--host +n0: no hosts are given that it could choose from",
		"-H a,+e -n 1":                         "no hosts are given that it could choose from",
		"-F a;+n0 -n 1":                        "hosts: line 2: no hosts are given that it could choose from",
		"-F a:2;b:2 -H +n2 -n 1":               "+n2, want at most +n1: --hostfile hosts has 2 hosts",
		"-F a:2;b:2 -n 4 : -H +e -n 1":         "+e: 0 hosts without PEs, want 1 or more",
		"-F a:2;b:2 -H +e:3 -n 1":              "+e: 2 hosts without PEs, want 3 or more",
		"-F a_slots=2_max-slots=3;a_slots=2":   "host a has 4 slots, want at most its max-slots 3",
		"-H a,b -n 3 | seq":                    "3 PEs, want at most 2: --map-by seq",
		"-F a_max-slots=1;a | seq":             "host a has 2 slots, want at most its max-slots 1",
		"-F a;b -n 2 : -n 1 | seq":             "1 PE, want at most 0: --map-by seq",
		"-H a,z | slurm=a:4 seq":               "host z, want one of",
		"-n 1":                                 "no hosts, want --host",
		"-F a.x:1;a.y:1 -H a -n 1":             "host a, want one of --hostfile hosts: a.x, a.y",
		"-H a -n 1 -M 2":                       "2 nodes, want at most 1, the hosts of --host a",
		"-n 1 : -H n1 -M 2 | slurm=n1:4,n2:4":  "2 nodes, want at most 1, the hosts of --host n1",
		"-n 2 : -M 1 -n 1 | slurm=n1:2,n2:2":   "1 PE, want at most 0: the slots of n1 (2, 2 taken)",
	} {
		if l, err := jobOf(t, line).Lay(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want an error with %q", line, writeLayout(l), err, want)
		}
	}
	for line, can := range map[string]bool{"-H a:2 -n 2 : -H b:1 -n 3": true, "-F b_slots=1_max-slots=2 -n 1 : -n 2": false} {
		var many *TooManyPEsError
		if _, err := jobOf(t, line).Lay(); !errors.As(err, &many) || many.Program != 1 || many.CanOverload != can {
			t.Errorf("%s: %+v, want that of the second program, that could be oversubscribed: %t", line, err, can)
		}
	}
}

// checkLayout checks what each layout promises.
func checkLayout(t interface{ Errorf(string, ...any) }, j *Job, l *Layout) {
	n, seen := 0, map[int]int{}
	for _, k := range l.Counts {
		n += k
	}
	names := map[string]bool{}
	block, lowest := true, -1
	for i := range l.Nodes {
		node := &l.Nodes[i]
		if len(node.PEs) == 0 || !slices.IsSorted(node.PEs) || node.PEs[0] <= lowest || names[node.Host.Name] {
			t.Errorf("node %d, %s, has PEs %v", i, node.Host.Name, node.PEs)
			return
		}
		names[node.Host.Name], lowest = true, node.PEs[0]
		block = block && node.PEs[len(node.PEs)-1]-node.PEs[0] == len(node.PEs)-1
		for _, pe := range node.PEs {
			seen[pe]++
			if l.Homes[pe] != i {
				t.Errorf("PE %d is on node %d and at home on %d", pe, i, l.Homes[pe])
			}
		}
		h := &node.Host
		if limit := h.MaxSlots; limit > 0 && len(node.PEs) > limit || len(node.PEs) > j.MostPerNode {
			t.Errorf("%s has %d PEs, want at most %d and %d", h.Name, len(node.PEs), limit, j.MostPerNode)
		}
		if !node.Here && j.Over != OverAllowed && j.By != BySeq && len(node.PEs) > h.Slots {
			t.Errorf("%s has %d PEs, want at most its slots %d", h.Name, len(node.PEs), h.Slots)
		}
	}
	if len(seen) != n || len(l.Homes) != n || block != l.Block {
		t.Errorf("%d of %d PEs have nodes, %d homes; consecutive: %t, want %t", len(seen), n, len(l.Homes), l.Block, block)
	}
	for pe, times := range seen {
		if times != 1 || pe >= n {
			t.Errorf("PE %d is mapped %d times", pe, times)
		}
	}
}

// For any hosts and policies: each PE has one node, slots and limits hold, and an error comes only
// if the PEs do not fit.
func TestLayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		j := &Job{
			By: By(n("by", 0, 1)), Rank: Rank(n("rank", 0, 2)), Over: Over(n("over", 0, 2)), MostPerNode: n("most", 1, 12), Processors: n("processors", 1, 4),
			IsHere: func(host string) bool { return host == "h0" },
		}
		var text strings.Builder
		slots, most := 0, 0
		hosts := n("hosts", 1, 6)
		for i := range hosts {
			k := n("slots", 1, 6)
			limit := k + n("more", 0, 3)
			fmt.Fprintf(&text, "h%d slots=%d max-slots=%d\n", i, k, limit)
			slots += min(k, j.MostPerNode)
			most += min(limit, j.MostPerNode)
		}
		file, err := ParseHostfile("hosts", text.String())
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for range n("programs", 1, 3) {
			pes := n("pes", 1, 12)
			want += pes
			j.Apps = append(j.Apps, App{PEs: pes})
		}
		j.Apps[0].File = file
		l, err := j.Lay()
		room := slots
		if j.Over == OverAllowed || j.Over == OverDefault && hosts == 1 {
			room = most
		}
		if fits := want <= room; fits != (err == nil) {
			t.Fatalf("%d PEs on %d: %v\n%s", want, room, err, &text)
		}
		if err != nil {
			return
		}
		checkLayout(t, j, l)
		if j.By == BySlot && j.Rank != RankNode && want <= slots && !l.Block {
			t.Fatalf("by slot: %s, want consecutive PEs", writeLayout(l))
		}
		if j.By == ByNode && len(j.Apps) == 1 && want <= hosts && len(l.Nodes) != want {
			t.Fatalf("by node: %s, want each PE on a node of its own", writeLayout(l))
		}
	})
}

// Layouts of the largest jobs take no time to speak of: a host that is full costs nothing.
func TestLayLarge(t *testing.T) {
	given, err := Emulated(maxHosts, maxHosts)
	if err != nil {
		t.Fatal(err)
	}
	given.Hosts[7].Slots = maxSlots
	for _, by := range []By{BySlot, ByNode} {
		j := &Job{Apps: []App{{PEs: maxPEs}}, Given: given, By: by}
		l, err := j.Lay()
		if err != nil || len(l.Homes) != maxPEs {
			t.Fatalf("%v: %v", by, err)
		}
		if most := len(l.Nodes[7].PEs); by == ByNode && most != maxPEs-maxHosts+1 {
			t.Errorf("the large host has %d PEs, want %d", most, maxPEs-maxHosts+1)
		}
	}
}

func TestEmulated(t *testing.T) {
	for x, want := range map[[2]int]string{
		{3, 6}: "node0:0-1 node1:2-3 node2:4-5", {4, 5}: "node0:0-1 node1:2 node2:3 node3:4", {1, 2}: "node0:0-1", {3, 2}: "node0:0 node1:1 node2:2", {2, 2}: "node0:0 node1:1",
	} {
		a, err := Emulated(x[0], x[1])
		if err != nil {
			t.Fatal(err)
		}
		l, err := (&Job{Apps: []App{{}}, Given: a}).Lay()
		if got := writeLayout(l); err != nil || got != want {
			t.Errorf("%d PEs on %d nodes: %q, %v, want %q", x[1], x[0], got, err, want)
		}
	}
	for _, x := range [][2]int{{0, 1}, {1, 0}, {maxHosts + 1, maxPEs}, {1, maxPEs + 1}, {-1, 1}} {
		if _, err := Emulated(x[0], x[1]); err == nil {
			t.Errorf("%d nodes for %d PEs are accepted", x[0], x[1])
		}
	}
}

// A host is elsewhere unless it is this machine, or this machine stands for it.
func TestElsewhere(t *testing.T) {
	l, err := jobOf(t, "-H a,here,b -n 3").Lay()
	if err != nil {
		t.Fatal(err)
	}
	given, err := Emulated(2, 2)
	if err != nil {
		t.Fatal(err)
	}
	emulated, err := (&Job{Apps: []App{{}}, Given: given}).Lay()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		l    *Layout
		pe   int
		host string // empty: this machine
	}{{l, 0, "a"}, {l, 1, ""}, {l, 2, "b"}, {emulated, 0, ""}, {emulated, 1, ""}, {nil, 0, ""}} {
		if host, elsewhere := x.l.Elsewhere(x.pe); elsewhere != (x.host != "") || elsewhere && host != x.host {
			t.Errorf("PE %d is on %q, elsewhere: %t; want %q", x.pe, host, elsewhere, x.host)
		}
	}
}

func TestShowLayout(t *testing.T) {
	l, err := jobOf(t, "-F me@a_slots=2_max-slots=3;b;c_slots=1_port=22 -n 3 : -n 2").Lay()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.AllocationText(), `allocation: 3 hosts of --hostfile hosts, 7 slots
a: 2 slots, at most 3 PEs, user me
b: 4 slots, as many as this machine has processors
c: 1 slot, port 22
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := l.MapText([]string{"x", "y"}), `map: 5 PEs on 2 hosts, consecutive on each
a: PEs 0-1, program x
b: PE 2, program x; PEs 3-4, program y
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if l, err = jobOf(t, "-H a:2,b:2 -n 3 | by-node").Lay(); err != nil {
		t.Fatal(err)
	}
	if got, want := l.MapText([]string{"x"}), `map: 3 PEs on 2 hosts, not consecutive on each
a: PEs 0,2, program x
b: PE 1, program x
`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var alone *Layout
	here, err := jobOf(t, "-H localhost:2").Lay()
	if !alone.IsHere() || err != nil || !here.IsHere() || l.IsHere() {
		t.Errorf("which layouts are of this machine alone: %t, %t, %t, %v", alone.IsHere(), here.IsHere(), l.IsHere(), err)
	}
}

func TestParseMapBy(t *testing.T) {
	for s, want := range map[string]MapBy{
		"slot": {Map: MapSlot}, "core": {Map: MapCore}, "Package": {Map: MapSocket},
		"node": {By: ByNode}, "NODE:OVERSUBSCRIBE": {By: ByNode, Over: OverAllowed}, "seq": {By: BySeq},
		"slot:NOOVERSUBSCRIBE,SPAN": {Map: MapSlot, Over: OverForbidden, Span: true}, "core:PE=1": {Map: MapCore},
		"ppr:2:node": {PerUnit: 2, Unit: BindNone}, "ppr:2:socket:oversubscribe": {PerUnit: 2, Unit: BindSocket, Over: OverAllowed},
		"ppr:1:core": {PerUnit: 1, Unit: BindCore, Map: MapCore}, "ppr:1:hwthread": {PerUnit: 1, Unit: BindHWThread, Map: MapHWThread},
		"ppr:3:l3cache": {PerUnit: 3, Unit: BindL3}, "ppr:3:package": {PerUnit: 3, Unit: BindSocket},
	} {
		if want.PerUnit > 0 && want.Unit == 0 {
			t.Fatalf("%s: bad row", s)
		}
		if m, err := ParseMapBy(s); err != nil || m != want {
			t.Errorf("%q: %+v, %v, want %+v", s, m, err, want)
		}
	}
	for s, want := range map[string]string{
		"": "want core, slot", "nodes": "node, seq or ppr:N:node", "core:pe=2": `qualifier "pe=2"`, "ppr": "want ppr:N:node", "ppr:2": "want ppr:N:node",
		"ppr:0:node": "want ppr:N:node", "ppr:x:node": "want ppr", "ppr:2:core": "ppr:1:core", "ppr:2:none": "want ppr", "ppr:2:rack": "want ppr", "ppr:99999999999:node": "want ppr",
		"seq:2": `qualifier "2"`,
	} {
		if m, err := ParseMapBy(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %q", s, m, err, want)
		}
	}
	for s, want := range map[string]struct {
		rank Rank
		unit Bind
	}{
		"slot": {RankSlot, BindDefault}, "NODE": {RankNode, BindDefault}, "fill": {RankSlot, BindNone}, "core": {RankSlot, BindCore},
		"package": {RankSlot, BindSocket}, "span": {}, "": {}, "none": {}, "default": {},
	} {
		if r, unit, err := ParseRank(s); r != want.rank || unit != want.unit || (err != nil) != (want.rank == 0) {
			t.Errorf("%q: %v, %v, %v, want %v", s, r, unit, err, want)
		}
	}
}

func TestUnits(t *testing.T) {
	big := only(machine(2, 1, 4, 2), "0-3,8-11")
	for unit, want := range map[Bind]int{BindNone: 1, BindCore: 4, BindHWThread: 8, BindSocket: 1, BindNUMA: 1, BindL3: 2} {
		if got := big.Units(unit); got != want {
			t.Errorf("%v: %d, want %d", unit, got, want)
		}
	}
}
