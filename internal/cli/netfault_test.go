package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/lab/detectbench"
)

// A network that loses three of ten packets costs no node.
func TestDetectBenchLosses(t *testing.T) {
	testenv.Need(t, testenv.EBPF, testenv.Root, testenv.Namespaces)
	t.Parallel()
	r := experimentJSON[detectbench.Report](t, 0, strings.Fields("detect-bench --emulate 4:netns --cases none --calm 5s --loss 30 --heartbeat-period 50ms --samples 1 --json")...)
	c := r.Cases[0]
	if r.Loss != 30 || c.Samples != 1 || c.False+c.Missed != 0 {
		t.Errorf("%+v, %+v", r, c)
	}
	// Each node sends some 40 pings and answers in a second.
	if c.Packets < 400 || c.PacketsLost < c.Packets/5 || c.PacketsLost > c.Packets*2/5 {
		t.Errorf("%d of %d packets are lost, want three of ten", c.PacketsLost, c.Packets)
	}
}

// A node that is not heard for a second, by netfault, is lost, and no other one is.
func TestNetfault(t *testing.T) {
	testenv.Need(t, testenv.EBPF, testenv.Root, testenv.Namespaces)
	t.Parallel()
	j := start(t, "--emulate", "3:netns", "--recover", "--heartbeat-period", "100ms", "-n", "3", "sh", "-c", `echo "ready $$"; exec sleep 1000`)
	j.ready(3)
	pid := fmt.Sprint(j.cmd.Process.Pid)
	for args, want := range map[string]string{
		"--percent 101":         "--percent: 101, want 0 to 100",
		"--percent 1 --from 3":  `--from: "3", want a node of the job: 0, 1, 2`,
		"--percent 1 --to x":    `--to: "x", want a node of the job (0, 1, 2) or front-end`,
		"--percent 1 --for day": `--for`,
	} {
		start(t, append(strings.Fields("netfault "+args), pid)...).expect(2, want)
	}
	none := start(t, "netfault", "--percent", "0", "--for", "100ms", "--seed", "5", pid)
	none.expect(0)
	if text := none.stdout.String(); !strings.Contains(text, "seed 5") || !strings.Contains(text, "port2") {
		t.Errorf("netfault prints %q", text)
	}
	one := start(t, "netfault", "--percent", "100", "--from", "1", "--for", "1s", pid)
	one.expect(0)
	if text := one.stdout.String(); strings.Contains(text, "port0") || !strings.Contains(text, "port1") {
		t.Errorf("netfault prints %q", text)
	}
	<-j.stderr.says("node node1 is lost with PE 1: it does not answer")
	check(t, j.cmd.Process.Kill())
	j.expect(-1)
	if text := j.stderr.String(); strings.Count(text, " is lost ") != 1 {
		t.Errorf("oshrun says %q", text)
	}
}

func TestNetfaultRefuses(t *testing.T) {
	refuses(t, "netfault", map[string]string{
		"7":             "--percent: nothing, want how many",
		"--percent 5":   `PID: "", want the number`,
		"--percent 5 x": `PID: "x", want the number`,
		"--percent 5 1": "PID: process 1 is no oshrun whose nodes have networks of their own",
	})
}
