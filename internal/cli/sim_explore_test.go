package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/sim/explore"
)

func simExplore(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newSimExplore()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestSimExploreUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--protocol "x", want ftco`:  {"--protocol", "x"},
		"--nodes 65, want 1 to 64":   {"--nodes", "65"},
		"--faults -1":                {"--faults", "-1"},
		"--calls 0":                  {"--calls", "0"},
		"--exhaustive 7":             {"--exhaustive", "7"},
		"--scenario 1, want 1":       {"--scenario", "1"},
		"--scenario -1":              {"--exhaustive", "2", "--scenario", "-1"},
		"--scenario 1000, want 1 to": {"--exhaustive", "2", "--scenario", "1000"},
		"--schedules 0":              {"--schedules", "0"},
	} {
		_, err := simExplore(args...)
		if usage := new(usageError); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want a usage error with %q", args, err, want)
		}
	}
}

// TestSimExploreSeed: the same seed prints the same run.
func TestSimExploreSeed(t *testing.T) {
	t.Parallel()
	one, err := simExplore("--seed", "5", "--nodes", "6")
	if err != nil || !strings.HasPrefix(one, "ftco n=") || !strings.HasSuffix(one, "nothing goes wrong\n") || !strings.Contains(one, "returns from") {
		t.Fatalf("%v:\n%s", err, one)
	}
	if two, _ := simExplore("--seed", "5", "--nodes", "6"); two != one {
		t.Errorf("the same seed again:\n%s\nwant\n%s", two, one)
	}
}

func TestSimExploreModes(t *testing.T) {
	t.Parallel()
	text, err := simExplore("--schedules", "200", "--seed", "7")
	if want := "200 schedules, seeds 7 to 206: nothing goes wrong\n"; err != nil || text != want {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
	text, err = simExplore("--exhaustive", "2", "--faults", "1")
	if err != nil || !strings.Contains(text, "ftco n=2 k=2 allreduce") || !strings.HasSuffix(text, "nothing goes wrong\n") {
		t.Errorf("%v: %s", err, text)
	}
	text, err = simExplore("--exhaustive", "2", "--json")
	var r exploreReport
	if err != nil || json.Unmarshal([]byte(text), &r) != nil || r.Nodes != 2 || len(r.Scenarios) < 20 || r.Scenarios[0].States == 0 || r.Failure != nil {
		t.Errorf("%v: %+v", err, r)
	}
}

// wrong is a protocol whose check fails once a member has died.
type wrong struct{ *explore.FTCO }

func (w wrong) Check(g *explore.Group) error {
	if g.Final && g.Dead != 0 {
		return errors.New("a member has died")
	}
	return nil
}

func drawWrong(rng *rand.Rand) (explore.System, explore.Faults) {
	sys := &explore.FTCO{Size: 3, Radix: 2, Sequence: []ftco.Call{{Kind: ftco.Barrier}}}
	return wrong{sys}, explore.Faults{Deaths: rng.IntN(2)}
}

// TestSimExploreFailure: a run that fails is shrunk to the one death that it needs.
func TestSimExploreFailure(t *testing.T) {
	p := explore.Protocol{
		Name: "wrong", Draw: func(explore.Limits) explore.Draw { return drawWrong },
		Scenarios: func(int, int) []explore.Scenario {
			// Searches in parallel share no system.
			calm, _ := drawWrong(rand.New(rand.NewPCG(1, 1)))
			deadly, _ := drawWrong(rand.New(rand.NewPCG(1, 1)))
			return []explore.Scenario{{System: calm}, {System: deadly, Faults: explore.Faults{Deaths: 1}}}
		},
	}
	old := explore.Protocols
	explore.Protocols = append(slices.Clip(old), p)
	t.Cleanup(func() { explore.Protocols = old })
	for _, args := range [][]string{{}, {"--exhaustive", "3"}, {"--json"}} {
		text, err := simExplore(append(args, "--protocol", "wrong")...)
		var status *statusError
		if !errors.As(err, &status) || status.status != 1 || !strings.Contains(err.Error(), "a member has died") {
			t.Errorf("%v: %v, want status 1", args, err)
		}
		if n := strings.Count(text, "is dead\\n") + strings.Count(text, "is dead\n"); n < 1 || !strings.Contains(text, "WRONG: a member has died") {
			t.Errorf("%v: %d deaths in\n%s", args, n, text)
		}
		_, again, found := strings.Cut(strings.ReplaceAll(text, `\n`, "\n"), "again: oshrun sim explore ")
		again, _, _ = strings.Cut(again, "\n")
		if !found {
			t.Errorf("%v: no message on how to repeat it:\n%s", args, text)
			continue
		}
		if repeated, err := simExplore(strings.Fields(again)...); err == nil || !strings.Contains(repeated, "WRONG: a member has died") {
			t.Errorf("%v: repeated with %q: %v\n%s", args, again, err, repeated)
		}
	}
}
