package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// needNetworks skips the test unless oshrun can make networks.
func needNetworks(t *testing.T) {
	t.Helper()
	testenv.Need(t, networkRights())
}

// networkRights returns the capability that the networks of emulated nodes take.
func networkRights() testenv.Capability {
	if os.Geteuid() == 0 {
		return testenv.Namespaces
	}
	return testenv.UserNamespaces
}

// Programs of MPI libraries run on emulated nodes with networks of their own, and leave none behind.
func TestNetworks(t *testing.T) { // its processes keep all processors busy, so nothing runs beside it
	needNetworks(t)
	before := networksHere(t)
	testMeetings(t, func(t *testing.T, hosts int, args ...string) *job {
		return prepare(t, slices.Concat([]string{"--emulate", fmt.Sprintf("%d:netns", hosts), "-n", fmt.Sprint(hosts)}, args)...)
	})
	testRounds(t, "4:netns", 20, func(node string) string { return node })
	if after := networksHere(t); !slices.Equal(after, before) {
		t.Errorf("interfaces and named networks are %v, and were %v", after, before)
	}
}

// networksHere returns the interfaces of this network that are called as oshrun calls its own, and the networks that
// have a name.
func networksHere(t *testing.T) (all []string) {
	t.Helper()
	links, err := net.Interfaces()
	check(t, err)
	for i := range links {
		if name := links[i].Name; name == "bridge" || strings.HasPrefix(name, "port") {
			all = append(all, name)
		}
	}
	named, err := filepath.Glob("/run/netns/*")
	check(t, err)
	return append(all, named...)
}

// A node has its loopback and one interface, by which it reaches the others, and none of this machine.
func TestNetworkOfNode(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	j := start(t, "--emulate", "2:netns", "-n", "2", "--output", "tag", "sh", "-c", "tail -n +3 /proc/net/dev; cat /proc/sys/kernel/hostname")
	j.expect(0)
	var got []string
	for line := range strings.Lines(j.stdout.String()) {
		words := strings.Fields(line)
		got = append(got, strings.Join(words[:min(len(words), 2)], " "))
	}
	want := []string{"[0]<stdout>: eth0:", "[0]<stdout>: lo:", "[0]<stdout>: node0", "[1]<stdout>: eth0:", "[1]<stdout>: lo:", "[1]<stdout>: node1"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whichever process of a job on such nodes is killed, nothing of it is left.
func TestNetworkKills(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "cluster.c"))
	for _, x := range []struct {
		victim string
		flags  []string
		says   string
	}{
		{"front end", nil, ""},
		{"holder", nil, "is lost with PE "},
		{"daemon", nil, "node node2 is lost with PE 2: "},
		{"daemon", []string{"--recover"}, "node node2 is lost with PE 2: "},
	} {
		t.Run(fmt.Sprint(x.victim, x.flags), func(t *testing.T) {
			j := start(t, slices.Concat(x.flags, []string{"--emulate", "4:netns", "-n", "4", program, "wait"})...)
			j.readLines(clusterHosts)
			check(t, syscall.Kill(j.onNetwork(x.victim, program), syscall.SIGKILL))
			rest := j.rest()
			if len(x.flags) > 0 {
				select {
				case <-j.stderr.says(x.says):
					check(t, j.cmd.Process.Signal(syscall.SIGINT))
				case <-rest:
				}
			}
			if x.victim == "holder" || x.victim == "front end" {
				j.over(testPatience, func() { <-rest }) // the next job removes the files of killed processes
			} else {
				j.endedAfter(testPatience, func() { <-rest })
			}
			if said := j.stderr.String(); !strings.Contains(said, x.says) {
				t.Errorf("said %q, want %q in it", said, x.says)
			}
		})
	}
}

// A node whose network is cut is lost after the lease, and ends itself.
func TestNetworkCut(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Root, testenv.Namespaces, testenv.SSH) // for ip
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "cluster.c"))
	j := start(t, "--lease", "2", "--emulate", "4:netns", "-n", "4", program, "wait")
	j.readLines(clusterHosts)
	holder := fmt.Sprintf("--net=/proc/%d/ns/net", j.onNetwork("holder", program))
	if text, err := exec.Command("nsenter", holder, "ip", "link", "set", "port2", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	j.expect(1, "node node2 is lost with PE 2: ")
}

// The bridge has a hardware address that does not change with its ports. Otherwise, hosts would not reach it for ten seconds
// after one of them has ended.
func TestNetworkBridge(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Root, testenv.Namespaces, testenv.SSH) // for ip
	j := start(t, "--emulate", "2:netns", "-n", "2", "sh", "-c", `echo "ready $$"; sleep 1000`)
	j.ready(2)
	holder := childrenThatRun(j.cmd.Process.Pid, "daemon", "--network")[0]
	text, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", holder), "ip", "link", "show", "bridge").CombinedOutput()
	if want := "link/ether 02:00:0a:00:00:fe "; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %s; want %s", err, text, want)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// onNetwork returns a process of a job on nodes with networks; the daemon is that of node 2.
func (j *job) onNetwork(what, program string) int {
	j.t.Helper()
	if what == "front end" {
		return j.cmd.Process.Pid
	}
	holders := childrenThatRun(j.cmd.Process.Pid, "daemon", "--network")
	if len(holders) != 1 {
		j.t.Fatalf("processes %v hold the network, want one", holders)
	}
	if what == "holder" {
		return holders[0]
	}
	for _, daemon := range childrenThatRun(holders[0], "daemon", "--stdin") {
		for _, pe := range childrenThatRun(daemon, program, "wait") {
			if hasVariable(pe, "PMIX_HOSTNAME=node2") {
				return daemon
			}
		}
	}
	j.t.Fatal("node2 has no daemon with a PE")
	return 0
}

// Options that make no sense for nodes with networks of their own are refused.
func TestNetworkOptions(t *testing.T) {
	for line, want := range map[string]string{
		"--emulate 2:net":                          `"2:net", want a number of nodes from 1 to 64, perhaps with :netns`,
		"--emulate 0:netns":                        `"0:netns", want a number of nodes from 1 to 64`,
		"--emulate 2:netns --launch ssh":           `--launch: "ssh", want nothing with --emulate 2:netns`,
		"--emulate 2:netns --prefix /opt/goshmem":  `--prefix: "/opt/goshmem", want nothing`,
		"--emulate 2:netns --interface lo":         `--interface: "lo", want nothing`,
		"--emulate 2:netns --port-range 4000-5000": `--port-range: "4000-5000", want nothing`,
	} {
		status, _, said := execute(t, append(strings.Fields(line), "-n", "2", "true")...)
		if status != 2 || !strings.Contains(said, want) || !strings.Contains(said, "hint: ") {
			t.Errorf("%s: status %d, %s; want %s", line, status, said, want)
		}
	}
}

// PEs get what makes their libraries use an interface. What the user has set stays, and a node without the interface ends the
// start before PEs run.
func TestDataInterface(t *testing.T) {
	t.Parallel()
	needNetworks(t)
	const show = `echo "$PMIX_RANK $OMPI_MCA_btl_tcp_if_include $UCX_NET_DEVICES $FI_TCP_IFACE"`
	for flags, want := range map[string]string{
		"--data-interface eth0":                                           "eth0 eth0 eth0",
		"--data-interface 10.0.0.0/24":                                    "eth0 eth0 eth0",
		"--data-interface 0.0.0.0/0":                                      "lo,eth0 lo,eth0 lo",
		"--data-interface eth0 -x OMPI_MCA_btl_tcp_if_include=10.0.0.0/8": "10.0.0.0/8 eth0 eth0",
		"--data-interface eth0 -x OMPI_MCA_btl_tcp_if_exclude=lo":         " eth0 eth0",
		"--data-interface eth0 -x UCX_NET_DEVICES=all -x FI_TCP_IFACE=lo": "eth0 all lo",
	} {
		t.Run(flags, func(t *testing.T) {
			j := start(t, append(strings.Fields(flags), "--emulate", "2:netns", "-n", "2", "sh", "-c", show)...)
			j.expect(0)
			for pe := range 2 {
				if line := fmt.Sprintf("%d %s\n", pe, want); !strings.Contains(j.stdout.String(), line) {
					t.Errorf("output lacks %q:\n%s", line, &j.stdout)
				}
			}
		})
	}
	for bad, want := range map[string]string{
		"--emulate 2:netns -n 2 --data-interface ib0":            `node0: --data-interface ib0: there is no interface "ib0"; this machine has lo, eth0; and 1 more of the same kind: node1`,
		"--emulate 2:netns -n 2 --data-interface 192.168.0.0/16": "node0: --data-interface 192.168.0.0/16: no interface that is up has an address in 192.168.0.0/16: lo has [",
		"-n 1 --data-interface no-such-one":                      `--data-interface no-such-one: there is no interface "no-such-one"; this machine has lo`,
	} {
		j := start(t, append(strings.Fields(bad), "echo", "ran")...)
		j.expect(4, want, "hint: every node of the job needs one")
		if out := j.stdout.String(); out != "" {
			t.Errorf("%s: output %q, want none", bad, out)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "eth0,eth1"} {
		start(t, "-n", "1", "--data-interface="+bad, "true").expect(2, "--data-interface: ", ", want ")
	}
	for _, lib := range []testenv.Capability{testenv.OpenMPI, testenv.MPICH} {
		program := testenv.CompileC(t, lib, filepath.Join("testdata", "cluster.c"))
		nodeOf := func(rank int) (node, host string) { node = fmt.Sprintf("node%d", rank); return node, node }
		start(t, "--emulate", "4:netns", "-n", "4", "--data-interface", "eth0", program, "ring").expectRanks("ring", 4, nodeOf)
	}
}
