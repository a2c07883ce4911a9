package cli

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/sim/explore"
)

const simExploreHelp = `Run the machines of a protocol, the very ones that programs use, under many
orders of delivery and with members that die, and check what comes out: that all
survivors return, agree, and count each contribution once.

  oshrun sim explore                              100000 random schedules
  oshrun sim explore --seed 4711                  one schedule: its trace, shrunk if it goes wrong
  oshrun sim explore --exhaustive 5 --faults 2    all runs of up to 5 members

A schedule depends on its seed, --nodes, --faults and --calls alone. A run that
goes wrong is printed as a trace without the choices that it does not need,
and after "again:" with the command that repeats it. The exit status is 1 then.

--protocol literal runs the algorithms of the paper as they are printed, at most
seven members of whom one dies. It is expected to fail: survivors differ.

With --json, one object: protocol, options, schedules or scenarios with
states, transitions and seconds, and failure (null if none), whose replay is the
command after "again:".`

// exploreFlags are what oshrun sim explore was asked for.
type exploreFlags struct {
	protocol   string
	limits     explore.Limits
	exhaustive int
	scenario   int // the only one of an exhaustive search, from 1; 0: all
	schedules  int
	seed       uint64
	json       bool
	one        bool // a seed was given and no number of schedules
}

// exploreReport is what --json writes.
type exploreReport struct {
	Protocol  string            `json:"protocol"`
	Nodes     int               `json:"nodes"`
	Faults    int               `json:"faults"`
	Calls     int               `json:"calls,omitempty"`
	Seed      *uint64           `json:"seed,omitempty"`
	Schedules int               `json:"schedules,omitempty"`
	Scenarios []exploreScenario `json:"scenarios,omitempty"`
	Seconds   float64           `json:"seconds"`
	Failure   *exploreFailure   `json:"failure"`
}

type exploreScenario struct {
	Scenario     string  `json:"scenario"`
	Faults       int     `json:"faults"`
	Losses       int     `json:"losses"`
	States       int     `json:"states"`
	Transitions  int     `json:"transitions"`
	Ends         int     `json:"ends"`
	MemberStates int     `json:"member_states"`
	Seconds      float64 `json:"seconds"`
}

type exploreFailure struct {
	Error  string  `json:"error"`
	Seed   *uint64 `json:"seed,omitempty"`
	Replay string  `json:"replay,omitempty"`
	Trace  string  `json:"trace"`
}

// newSimExplore returns the command that explores schedules.
func newSimExplore() *cobra.Command {
	f := exploreFlags{limits: explore.Limits{Nodes: explore.MostNodes, Deaths: 8, Calls: 6}}
	cmd := &cobra.Command{
		Use:               "explore",
		Short:             "Search schedules and deaths for one that a protocol does not survive",
		Long:              simExploreHelp,
		Args:              noSimArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.one = cmd.Flags().Changed("seed") && !cmd.Flags().Changed("schedules")
			return f.run(cmd)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.protocol, "protocol", "ftco", "what to run: "+strings.Join(protocolNames(), ", "))
	fs.IntVar(&f.limits.Nodes, "nodes", f.limits.Nodes, "members, at most")
	fs.IntVar(&f.limits.Deaths, "faults", f.limits.Deaths, "members that die, at most")
	fs.IntVar(&f.limits.Calls, "calls", f.limits.Calls, "calls of each member, one after the other, at most (some schedules make 20)")
	fs.IntVar(&f.exhaustive, "exhaustive", 0, "search all runs of up to this number of members, with one call, or two up to 4 members")
	fs.IntVar(&f.scenario, "scenario", 0, "with --exhaustive: search only this one of the scenarios, counted from 1")
	fs.IntVar(&f.schedules, "schedules", 100000, "number of random schedules, each with a seed of its own")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the first schedule; without --schedules the only one, whose trace is printed")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	completeFlags(cmd, map[string][]string{"protocol": protocolNames()})
	return cmd
}

func protocolNames() []string {
	var names []string
	for _, p := range explore.Protocols {
		names = append(names, p.Name)
	}
	return names
}

func (f *exploreFlags) check() error {
	const hint = "oshrun sim explore --help"
	switch {
	case f.limits.Nodes < 1 || f.limits.Nodes > explore.MostNodes:
		return usagef(hint, "sim explore: --nodes %d, want 1 to %d", f.limits.Nodes, explore.MostNodes)
	case f.limits.Deaths < 0 || f.limits.Deaths > explore.MostNodes:
		return usagef(hint, "sim explore: --faults %d, want 0 to %d", f.limits.Deaths, explore.MostNodes)
	case f.limits.Calls < 1 || f.limits.Calls > 100:
		return usagef(hint, "sim explore: --calls %d, want 1 to 100", f.limits.Calls)
	case f.exhaustive < 0 || f.exhaustive > explore.MostExhaustive:
		return usagef(hint, "sim explore: --exhaustive %d, want 1 to %d members; 0: random schedules", f.exhaustive, explore.MostExhaustive)
	case f.scenario < 0 || f.scenario > 0 && f.exhaustive == 0:
		return usagef(hint, "sim explore: --scenario %d, want 1 or more, with --exhaustive", f.scenario)
	case f.schedules < 1:
		return usagef(hint, "sim explore: --schedules %d, want 1 or more", f.schedules)
	}
	return nil
}

func (f *exploreFlags) run(cmd *cobra.Command) error {
	p, ok := explore.Find(f.protocol)
	if !ok {
		return usagef("oshrun sim explore --help", "sim explore: --protocol %q, want %s", f.protocol, strings.Join(protocolNames(), ", "))
	}
	if err := f.check(); err != nil {
		return err
	}
	r := &exploreReport{Protocol: p.Name, Nodes: f.limits.Nodes, Faults: f.limits.Deaths}
	start := time.Now()
	var err error
	switch {
	case f.exhaustive > 0:
		err = f.search(cmd, p, r)
	case f.one:
		return f.trace(cmd, p, r)
	default:
		err = f.random(cmd, p, r)
	}
	if err != nil {
		return err
	}
	r.Seconds = time.Since(start).Seconds()
	return f.end(cmd, r)
}

// end prints what all modes end with, and says by the status what was found.
func (f *exploreFlags) end(cmd *cobra.Command, r *exploreReport) error {
	if f.json {
		if err := emitJSON(cmd, r); err != nil {
			return err
		}
	}
	if r.Failure == nil {
		return nil
	}
	if !f.json {
		if err := emit(cmd, []byte(r.Failure.Trace)); err != nil {
			return err
		}
	}
	err := fmt.Errorf("sim explore: %s: a run goes wrong: %s", r.Protocol, r.Failure.Error)
	return &statusError{status: launch.StatusError, err: err}
}

// search searches exhaustively, printing a line for each scenario when it is done.
func (f *exploreFlags) search(cmd *cobra.Command, p explore.Protocol, r *exploreReport) error {
	r.Nodes = f.exhaustive
	if !cmd.Flags().Changed("faults") {
		r.Faults = 2
	}
	all, first := p.Scenarios(f.exhaustive, r.Faults), 0
	if f.scenario > len(all) {
		return usagef("oshrun sim explore --help", "sim explore: --scenario %d, want 1 to %d with --exhaustive %d --faults %d",
			f.scenario, len(all), f.exhaustive, r.Faults)
	}
	if f.scenario > 0 {
		first = f.scenario - 1
		all = all[first:f.scenario]
	}
	var total explore.Count
	out := cmd.OutOrStdout()
	failure := explore.Search(cmd.Context(), all, runtime.NumCPU(), func(s *explore.Result) {
		total.States += s.States
		total.Transitions += s.Transitions
		total.Ends += s.Ends
		if !f.json {
			fmt.Fprintf(out, "%-60v faults %d losses %d  %9d states %9d transitions %6d ends %7.2f s\n",
				s.System, s.Faults.Deaths, s.Faults.Losses, s.States, s.Transitions, s.Ends, s.Time.Seconds())
		}
		r.Scenarios = append(r.Scenarios, exploreScenario{
			Scenario: s.System.String(), Faults: s.Faults.Deaths, Losses: s.Faults.Losses, States: s.States, Transitions: s.Transitions,
			Ends: s.Ends, MemberStates: s.MemberStates, Seconds: s.Time.Seconds(),
		})
		if s.Failure != nil {
			r.Failure = newFailure(s.Failure, s.Faults, fmt.Sprintf("oshrun sim explore --protocol %s --exhaustive %d --faults %d --scenario %d",
				p.Name, f.exhaustive, r.Faults, first+len(r.Scenarios)))
		}
	})
	if failure == nil && !f.json {
		text := fmt.Sprintf("%d scenarios, %d states, %d transitions, %d ends: nothing goes wrong\n", len(r.Scenarios), total.States, total.Transitions, total.Ends)
		return emit(cmd, []byte(text))
	}
	return nil
}

// newFailure describes a run that goes wrong, without the choices that it does not need, and the command that repeats it.
func newFailure(f *explore.Failure, faults explore.Faults, replay string) *exploreFailure {
	trace := explore.Trace(explore.Shrink(f, faults), faults) + "again: " + replay + "\n"
	return &exploreFailure{Error: f.Err.Error(), Replay: replay, Trace: trace}
}

// random runs many schedules.
func (f *exploreFlags) random(cmd *cobra.Command, p explore.Protocol, r *exploreReport) error {
	draw := p.Draw(f.limits)
	r.Calls, r.Seed = f.limits.Calls, &f.seed
	ran, seed, failure := explore.RandomAll(cmd.Context(), draw, f.seed, f.schedules, runtime.NumCPU())
	r.Schedules = ran
	if failure != nil {
		faults, again := explore.Random(draw, seed)
		r.Failure = newFailure(again, faults, fmt.Sprintf("oshrun sim explore --protocol %s --nodes %d --faults %d --calls %d --seed %d",
			p.Name, f.limits.Nodes, f.limits.Deaths, f.limits.Calls, seed))
		r.Failure.Seed = &seed
	}
	if failure != nil || f.json {
		return nil
	}
	text := fmt.Sprintf("%d schedules, seeds %d to %d: nothing goes wrong\n", ran, f.seed, f.seed+uint64(ran)-1)
	return emit(cmd, []byte(text))
}

// trace runs one schedule and prints all that happens in it.
func (f *exploreFlags) trace(cmd *cobra.Command, p explore.Protocol, r *exploreReport) error {
	run, faults, failure := explore.RandomRun(p.Draw(f.limits), f.seed)
	r.Calls, r.Seed, r.Schedules = f.limits.Calls, &f.seed, 1
	if failure != nil {
		r.Failure = &exploreFailure{Error: failure.Err.Error(), Seed: &f.seed, Trace: explore.Trace(explore.Shrink(failure, faults), faults)}
		return f.end(cmd, r)
	}
	if f.json {
		return f.end(cmd, r)
	}
	return emit(cmd, []byte(explore.Trace(run, faults)+"nothing goes wrong\n"))
}
