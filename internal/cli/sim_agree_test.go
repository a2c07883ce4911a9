package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/agree"
)

func TestSimAgree(t *testing.T) {
	r := sayJSON[agree.Report](t, "sim", "agree", "--nodes", "64", "--json")
	if r.First.Latency == nil || r.First.Latency.Mean != 144 || r.First.Outcomes.Decided != 1 || r.Options.Algorithm != "log" || r.Options.Radix != 2 {
		t.Errorf("64 nodes: %+v, want DECIDED in 144 steps", r)
	}
	r = sayJSON[agree.Report](t, strings.Fields("sim agree --failures 256 --who inner --rebalance --json")...)
	if first, next := r.First.Latency.Mean, r.Next.Latency.Mean; first <= next || !r.Options.Rebalance {
		t.Errorf("256 inner nodes dead: %v steps, rebalanced %v, want less", first, next)
	}
	text, err := say(t, strings.Fields("sim agree --nodes 16 --failures 2 --who root --when during --runs 40")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"log, 16 nodes, k = 2, 2 failures (root, during)", "AGREEMENT", "latency, steps", "messages per node", "first: ", " blocked\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("sim agree lacks %q:\n%s", want, text)
		}
	}
}

// A mistake in the options is a usage error that names the flag.
func TestSimAgreeRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--nodes 0", `--nodes: "0", want 1 to`},
		{"--algorithm paxos", `--algorithm: "paxos", want linear, log, early, allreduce`},
		{"--radix 1", "--radix"},
		{"--nodes 8 --failures 8", `--failures: "8", want 0 to 7`},
		{"--nodes 8 --failures 5 --who leaves", `--failures: "5", want 0 to 4 with --who leaves`},
		{"--who me", "--who"},
		{"--when after", "--when"},
		{"--algorithm early --promote", "--promote"},
		{"--durable", "--durable"},
		{"--runs 0", "--runs"},
		{"--latency 10 --overhead 3", "a multiple of the overhead"},
		{"--parallel 0", "--parallel"},
		{"--nodes 16384 --radix 16384 --algorithm early", `--radix: "16384", want one with which the root of 16384 nodes has at most 512 children`},
		{"extra", `argument "extra", want none`},
	} {
		var out, errs bytes.Buffer
		code := Execute(append([]string{"sim", "agree"}, strings.Fields(c.args)...), os.Stdin, &out, &errs)
		if code != launch.StatusUsage || !strings.Contains(errs.String(), c.want) || !strings.Contains(errs.String(), "hint: ") || out.Len() > 0 {
			t.Errorf("sim agree %s: status %d, want %d, and %q:\n%s%s", c.args, code, launch.StatusUsage, c.want, &errs, &out)
		}
	}
}
