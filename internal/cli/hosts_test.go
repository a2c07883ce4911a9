package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
)

// How many PEs a program has, and where they are, by what is said of hosts.
func TestHosts(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	noSlurm(t)
	here := func(host string) bool { return host == "here" || host == "localhost" }
	cpus := runtime.NumCPU()
	const isHere, isElsewhere = true, false
	for _, x := range []struct {
		f    habitFlags
		want int // 0: want an error
		n    int // value of -n; 0: not given
		here bool
	}{
		{habitFlags{hosts: []string{"here"}}, 1, 0, isHere},
		{habitFlags{hosts: []string{"here"}}, 7, 7, isHere},
		{habitFlags{hosts: []string{"here:3,localhost"}}, 4, 0, isHere},
		{habitFlags{hosts: []string{"here:3", "localhost"}}, 4, 0, isHere},
		{habitFlags{hosts: []string{"here:0"}}, 0, 0, isHere},
		{habitFlags{hosts: []string{"here,there"}}, 2, 0, isElsewhere},
		{habitFlags{hosts: []string{"here:2,there:2"}}, 2, 2, isHere}, // the other host has no PE
		{habitFlags{hosts: []string{"here:2,there:2"}}, 0, 5, isElsewhere},
		{habitFlags{hostfile: file("a", "# comment\nhere slots=3 max_slots=9\n\nlocalhost:2 # more\n")}, 5, 0, isHere},
		{habitFlags{hostfile: file("b", "here\n")}, cpus, 0, isHere},
		{habitFlags{hostfile: file("c", "here\nthere slots=4\n")}, cpus + 4, 0, isElsewhere},
		{habitFlags{hostfile: file("d", "\n")}, 0, 0, isHere},
		{habitFlags{hostfile: file("e", "here slots=x\n")}, 0, 0, isHere},
		{habitFlags{hostfile: file("f", "here\nthere:4\n"), hosts: []string{"there:2"}}, 2, 0, isElsewhere},
		{habitFlags{hostfile: file("f", "here\nthere:4\n"), hosts: []string{"where"}}, 0, 0, isElsewhere},
		{habitFlags{hostfile: dir}, 0, 0, isHere},
		{habitFlags{hostfile: "/dev/zero"}, 0, 0, isHere},
		{habitFlags{perNode: "3"}, 3, 0, isHere},
		{habitFlags{perNode: "3"}, 3, 3, isHere},
		{habitFlags{perNode: "3"}, 0, 4, isHere},
		{habitFlags{perNode: "1"}, 4, 4, isHere},
		{habitFlags{perNode: "1", hosts: []string{"here"}}, 4, 4, isHere},
		{habitFlags{perNode: "2", hosts: []string{"there,where"}}, 4, 0, isElsewhere},
		{habitFlags{perNode: "x"}, 0, 0, isHere},
		{habitFlags{ppn: "2"}, 8, 8, isHere},
		{habitFlags{ppn: "2"}, 2, 0, isHere},
		{habitFlags{nodes: "1"}, 8, 8, isHere},
		{habitFlags{nodes: "2"}, 0, 8, isHere},
		{habitFlags{nodes: "2", hosts: []string{"a:2,b:2,c:2"}}, 4, 0, isElsewhere},
	} {
		f := &runFlags{n: max(x.n, 1), habitFlags: x.f}
		l, err := f.layOut([]part{{flags: f, counted: x.n > 0}}, here)
		if (err != nil) != (x.want == 0) || err == nil && (f.n != x.want || l.IsHere() != x.here) {
			t.Errorf("%+v with -n %d: %d PEs, here: %t, %v, want %d, here: %t", x.f, x.n, f.n, l.IsHere(), err, x.want, x.here)
		}
	}
	name, err := os.Hostname()
	check(t, err)
	isThis := newIsHere()
	for _, x := range []struct {
		own, host string
		want      bool
	}{
		{"n1", "n1.a.org", true}, {"n1.a.org", "N1", true}, {"n1.a.org", "n1.A.org", true}, {"n1.a.org", "n1.b.org", false}, {"n1", "n2", false},
	} {
		if isHereBy(x.own)(x.host) != x.want {
			t.Errorf("%q is the machine %q: %t, want %t", x.host, x.own, !x.want, x.want)
		}
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, name: true, name + ".example.org": true, "": false, "no-such-host": false, "192.0.2.1": false} {
		if isThis(host) != want {
			t.Errorf("%q is this machine: %t, want %t", host, !want, want)
		}
	}
}

// noSlurm hides a job of Slurm that the tests run in.
func noSlurm(t *testing.T) {
	t.Helper()
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID", "SLURMD_NODENAME"} {
		t.Setenv(name, "")
	}
}

// expectMaps checks what is displayed of jobs, by their command lines: the map of PEs, or with "! " in front the error.
func expectMaps(t *testing.T, lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		want, refused := strings.CutPrefix(want, "! ")
		status, _, said := execute(t, strings.Fields("--do-not-launch --display map "+line)...)
		if refused && status != 2 || !refused && status != 0 || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, want\n%s\ngot\n%s", line, status, want, said)
		}
	}
}

// Jobs on other hosts are shown before their daemons are started.
func TestOtherHosts(t *testing.T) {
	noSlurm(t)
	const display = "--display map,allocation "
	words := `allocation: 2 hosts of --host node1:2,node2:2, 4 slots
node1: 2 slots
node2: 2 slots
map: 3 PEs on 2 hosts, consecutive on each
node1: PEs 0-1, program no-such-program
node2: PE 2, program no-such-program
`
	line := display + "-n 3 --host node1:2,node2:2 no-such-program"
	if status, out, said := execute(t, strings.Fields("--do-not-launch "+line)...); status != 0 || out != "" || said != words {
		t.Errorf("status %d, %q, want 0 and\n%s\ngot\n%s", status, out, words, said)
	}
	status, _, said := execute(t, append([]string{"--launch", "exec:sh -c ./{host}_is_no_such_host"}, strings.Fields(line)...)...)
	if status != 4 || !strings.HasPrefix(said, words+"oshrun: daemon on node") || !strings.Contains(said, "_is_no_such_host: not found") || strings.Count(said, ", started by") != 1 {
		t.Errorf("launched: status %d\n%s", status, said)
	}
	for option, want := range map[string]string{
		"-launcher-exec ./is_no_such":                "started by \"./is_no_such node",
		"-bootstrap ssh -bootstrap-exec ./no/ssh":    "started by \"./no/ssh -o BatchMode=yes node",
		"--mca plm_rsh_agent ./is_no_such:./neither": "started by \"./is_no_such node",
	} {
		if status, _, said = execute(t, append(strings.Fields(option), strings.Fields(line)...)...); status != 4 || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, want %s\n%s", option, status, want, said)
		}
	}
	if own, err := translate(strings.Fields("-launcher rsh ./a"), newRoot(nil).Flags()); err != nil || own[0] != "--launch=exec:rsh {host}" {
		t.Errorf("-launcher rsh: %q, %v", own, err)
	}
	expectMaps(t, map[string]string{
		"-n 4 --host node1:2,node2:2 --map-by node true":                "node1: PEs 0,2, program true\nnode2: PEs 1,3, program true",
		"-n 4 --host node1:2,node2:2 --map-by node --rank-by slot true": "node1: PEs 0-1, program true\nnode2: PEs 2-3, program true",
		"-n 1 --host node1:2 true : -n 2 --host node2:2 /bin/false":     "node1: PE 0, program true\nnode2: PEs 1-2, program /bin/false",
		"-n 6 --host node1:1,node2:1 --map-by :OVERSUBSCRIBE true":      "node1: PEs 0-2, program true\nnode2: PEs 3-5, program true",
		"--host n1,n2 --wdir /only/there true":                          "n1: PE 0, program true\nn2: PE 1, program true",
		"--host n[1-2]:2 true":                                          "n1: PEs 0-1, program true\nn2: PEs 2-3, program true",
		"--host n[1-2]:2 --nodes 1 -n 1 true : --nodes 2 -n 2 false":    "n1: PE 0, program true; PE 1, program false\nn2: PE 2, program false",
		"--host n[1-2]:2 -n 1 true : --nodes 1 -n 2 false":              "! program 2 of the job: not enough slots: 2 PEs, want at most 1",
		"--host n[1-2]:2 -n 1 true : --host n2:2 --nodes 2 -n 2 false":  "! program 2 of the job: --nodes: 2 nodes, want at most 1, the hosts of --host n2:2\nhint: a smaller --nodes",
		"-n 1 true : --nodes 2 -n 2 false":                              "! program 2 of the job: --nodes: 2, want 1: no hosts are given",
		"--host n1,n2 --map-by seq --nodes 1 true":                      "! --nodes and --map-by seq exclude each other",
		"-n 1 --host no-such-user@localhost true":                       "! host no-such-user@localhost: the host is this machine, ",
		"-n 2 --host no-such-user@localhost,n2 true":                    "! want no other user\nhint: leave the user out",
	})
	file := filepath.Join(t.TempDir(), "hosts")
	for text, want := range map[string]string{"localhost user=" + ownUser(): "", "localhost port=2222": "host localhost, port 2222: the host is this machine"} {
		check(t, os.WriteFile(file, []byte(text), 0o600))
		if status, _, said := execute(t, "--do-not-launch", "-n", "1", "--hostfile", file, "true"); (status == 0) != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, %s, want %q", text, status, said, want)
		}
	}
}

// Over hosts, PEs are mapped by slot where the units are those of a host, which binds its PEs itself.
func TestMapOtherHosts(t *testing.T) {
	noSlurm(t)
	per := node(t).Units(plan.BindSocket)
	expectMaps(t, map[string]string{
		"--host n1:9,n2:9 --map-by ppr:1:socket true":              "map: " + strconv.Itoa(2*per) + " PEs on 2 hosts",
		"--host n1:9,n2:9 --map-by ppr:1:core --bind-to none true": "PEs on 2 hosts",
		"--host n1:1,n2:1 --map-by core true":                      "n1: PE 0, program true\nn2: PE 1, program true",
		"--host n1:2,n2:2 --map-by l3cache true":                   "n1: PEs 0-1, program true\nn2: PEs 2-3, program true",
		"--host n1:2,n2:2 --use-hwthread-cpus --rank-by node true": "n1: PEs 0,2, program true\nn2: PEs 1,3, program true",
		"--host n1:2,n2:2 --map-by node --rank-by socket true":     "n1: PEs 0-1, program true\nn2: PEs 2-3, program true",
		"--host n1:2,n2:2 --rank-by fill --bind-to core true":      "n1: PEs 0-1, program true\nn2: PEs 2-3, program true",
		"--host n1:2,n2:2 --rank-by span true":                     "! --rank-by: \"span\", want slot, node, fill, core",
		"--host n1:2,n2:2 --rank-by sockets true":                  "! did you mean socket?",
		"--host n1:1,n2:1 --map-by core --bind-to none true":       "map: 2 PEs on 2 hosts",
		"--host n1:1,n2:1 --map-by slot:SPAN true":                 "! --map-by: \"slot:SPAN\": qualifier span, want none on several hosts",
		"-n 1 --map-by slot:SPAN true":                             "map: 1 PEs on ",
		"-n 1 --map-by core true":                                  "PE 0 bound to core ",
	})
}

// Emulated nodes are hosts, over which PEs are spread by the same rules.
func TestEmulatedHosts(t *testing.T) {
	noSlurm(t)
	expectMaps(t, map[string]string{
		"--emulate 2 -n 3 true":                        "node0: PEs 0-1, program true\nnode1: PE 2, program true",
		"--emulate 4 -n 5 true":                        "node0: PEs 0-1, program true\nnode1: PE 2, program true\nnode2: PE 3, program true\nnode3: PE 4, program true",
		"--emulate 2 -n 4 --map-by node true":          "node0: PEs 0,2, program true\nnode1: PEs 1,3, program true",
		"--emulate 2 -N 2 true":                        "node0: PEs 0-1, program true\nnode1: PEs 2-3, program true",
		"--emulate 3 -n 5 true : -n 1 true":            "node2: PE 4, program true; PE 5, program true",
		"--emulate 2 -n 4 --host node1:*,node0:2 true": "node1: PEs 0-1, program true\nnode0: PEs 2-3, program true",
		"--emulate 3 -n 2 true":                        "node0: PE 0, program true\nnode1: PE 1, program true",
		"--emulate 2 -n 2 --host localhost true":       "! host localhost, want one of emulation: node0, node1",
	})
}

// An emulated node is none of this machine's names, even if the machine is called so.
func TestEmulatedNames(t *testing.T) {
	noSlurm(t)
	f := &runFlags{n: 2, nodeFlags: nodeFlags{emulate: "1"}}
	l, err := f.layOut([]part{{flags: f, counted: true}}, func(host string) bool { return host == "node0" })
	if err != nil || l.IsHere() {
		t.Errorf("node0 on a machine called node0 is not emulated: %v", err)
	}
}

// In a job of Slurm, its nodes are the hosts; without -n there is a PE for each of its tasks.
func TestSlurmHosts(t *testing.T) {
	noSlurm(t)
	set := func(list, tasks string) {
		t.Setenv("SLURM_JOB_ID", "7")
		t.Setenv("SLURM_JOB_NODELIST", list)
		t.Setenv("SLURM_TASKS_PER_NODE", tasks)
		t.Setenv("SLURM_NNODES", "")
		t.Setenv("SLURM_JOB_NUM_NODES", "")
	}
	set("n[01-02]", "2,1")
	expectMaps(t, map[string]string{
		"true":                  "n01: PEs 0-1, program true\nn02: PE 2, program true",
		"--host n02 true":       "n02: PE 0, program true",
		"--host +n1 true":       "n02: PE 0, program true",
		"--nodes 1 true":        "n01: PEs 0-1, program true",
		"-n 2 --host n02 true":  "! not enough slots: 2 PEs, want at most 1: the slots of n02 (1)",
		"--host n03 true":       "! --host n03: host n03, want one of Slurm's allocation: n01, n02; did you mean n01?",
		"--host localhost true": "! host localhost, want one of Slurm's allocation: n01, n02",
	})
	set("n[01-02", "2,1")
	if status, _, said := execute(t, "true"); status != 2 || !strings.Contains(said, "SLURM_JOB_NODELIST: n[01-02: [ without ]") || !strings.Contains(said, "\nhint: env -u SLURM_JOB_ID -u SLURM_JOBID oshrun") {
		t.Errorf("a list that is cut: status %d, %s", status, said)
	}
	name, err := os.Hostname()
	check(t, err)
	set(name+",elsewhere", "3,3")
	if status, out, said := execute(t, "-n", "2", "echo", "x"); status != 0 || out != "x\nx\n" {
		t.Errorf("PEs that find room on this machine: status %d, %q, %s", status, out, said)
	}
	set("node9", "3")
	t.Setenv("SLURMD_NODENAME", "node9")
	if status, out, said := execute(t, "echo", "x"); status != 0 || out != "x\nx\nx\n" {
		t.Errorf("a node of Slurm that is this machine: status %d, %q, %s", status, out, said)
	}
}
