package cli

import (
	"strings"
	"testing"

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
	if strings.Contains(text, "note:") || strings.Contains(text, "first: 40 decided") || strings.Contains(text, " 0 undecided, 0 blocked\nnext") {
		t.Errorf("sim agree with its own detection time, want undecided agreements and no note:\n%s", text)
	}
	late, err := say(t, strings.Fields("sim agree --nodes 64 --failures 3 --who root --when during --runs 40 --detection 100")...)
	if err != nil || !strings.Contains(late, "deaths fall into 144 steps") || !strings.Contains(late, "note: so late") || !strings.Contains(late, "compare --detection 20") {
		t.Errorf("late detection: %v, want a note on what it hides:\n%s", err, late)
	}
	for _, want := range []string{"log, 16 nodes, k = 2, 2 failures (root, during)", "AGREEMENT", "latency, steps", "messages per node", "first: ", " blocked\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("sim agree lacks %q:\n%s", want, text)
		}
	}
}

func TestSimAgreeRefuses(t *testing.T) {
	refuses(t, "sim agree", map[string]string{
		"--nodes 0":                           `--nodes: "0", want 1 to`,
		"--algorithm paxos":                   `--algorithm: "paxos", want linear, log, early, allreduce`,
		"--radix 1":                           "--radix",
		"--nodes 8 --failures 8":              `--failures: "8", want 0 to 7`,
		"--nodes 8 --failures 5 --who leaves": `--failures: "5", want 0 to 4 with --who leaves`,
		"--who me":                            "--who",
		"--when after":                        "--when",
		"--algorithm early --promote":         "--promote",
		"--durable":                           "--durable",
		"--runs 0":                            "--runs",
		"--latency 10 --overhead 3":           "a multiple of the overhead",
		"--parallel 0":                        "--parallel",
		"extra":                               `argument "extra", want none`,
		"--failed 5":                          "oshrun: sim agree: unknown option --failed, did you mean --failures?\nhint: oshrun sim agree --help",
		"--nodse=5":                           "unknown option --nodse, did you mean --nodes?",
		"--zzzzzz":                            "oshrun: sim agree: unknown option --zzzzzz\nhint: oshrun sim agree --help",
		"-x":                                  "oshrun: sim agree: unknown option -x\nhint: oshrun sim agree --help",
		"--nodes many":                        "--nodes: \"many\"",
		"--promote log":                       "sim agree: argument \"log\", want none\nhint: oshrun sim agree --help",
	})
	refuses(t, "sim agree", map[string]string{"--nodes many": "hint: oshrun sim agree --help"})
	refuses(t, "sim explore", map[string]string{
		"--exhaust 3": "unknown option --exhaust, did you mean --exhaustive?\nhint: oshrun sim explore --help",
		"5":           "sim explore: argument \"5\", want none\nhint: oshrun sim explore --help",
	})
}
