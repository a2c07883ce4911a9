package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/xunix"
)

var (
	errEnded    = errors.New("exit status 0")
	errNoMember = errors.New("no such member")
)

const (
	startTimeout = 60 * time.Second // until each member sees all others
	countTimeout = 10 * time.Second // until members say how many datagrams they have sent
	maxMembers   = 512
	maxSamples   = 10000
)

// options are the flags of the benchmark.
type options struct {
	members  []int
	periods  []time.Duration
	configs  []string
	samples  int
	seed     uint64
	nice     int
	busy     int
	idle     time.Duration
	patience time.Duration
	json     bool
}

// setting is a row of the report: what its samples have in common.
type setting struct {
	config  string
	members int
	period  time.Duration
}

// list is a flag with values that are separated by commas.
func list[T any](set *flag.FlagSet, name, usage string, into *[]T, parse func(string) (T, error)) {
	set.Func(name, usage, func(text string) error {
		*into = nil
		for word := range strings.SplitSeq(text, ",") {
			v, err := parse(word)
			if err != nil {
				return err
			}
			*into = append(*into, v)
		}
		return nil
	})
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	o = options{members: []int{8}, configs: []string{configTuned}}
	set := flag.NewFlagSet("swimbench", flag.ContinueOnError)
	set.SetOutput(stderr)
	list(set, "members", "`numbers` of members (default 8)", &o.members, strconv.Atoi)
	list(set, "period", "probe `intervals` of tuned and aggr (default 100ms); lan has 1s", &o.periods, time.ParseDuration)
	list(set, "config", "`configurations` of memberlist: "+strings.Join(configs, ", ")+" (default tuned)", &o.configs,
		func(word string) (string, error) { return word, nil })
	set.IntVar(&o.samples, "samples", 5, "groups of each configuration, number and interval")
	set.Uint64Var(&o.seed, "seed", rand.Uint64()>>32, "seed of the victims and of the order of samples; the default is a new one")
	set.IntVar(&o.nice, "nice", 0, "nice value of the members; 0: that of this process")
	set.IntVar(&o.busy, "busy", 0, "busy loops beside the members, at the priority of this process")
	idle := set.Float64("idle", 0, "kill nobody, and count for so many `seconds` the reports of living members")
	set.DurationVar(&o.patience, "patience", 0, "how long survivors may take until they have missed a death (default 60 intervals, and at least 30s)")
	set.BoolVar(&o.json, "json", false, "print the report as JSON")
	if err := parseFlags(set, args); err != nil {
		return o, err
	}
	o.idle = time.Duration(*idle * float64(time.Second))
	return o, o.check()
}

// check checks the options.
func (o *options) check() error {
	err := measure.FirstError(
		measure.CheckNumbers("--members", o.members, 2, maxMembers, "members"),
		measure.CheckWords("--config", o.configs, configs),
		measure.CheckNumber("--samples", o.samples, 1, maxSamples, "groups"),
		measure.CheckNumber("--nice", o.nice, -20, 19, "as a nice value"),
		measure.CheckNumber("--busy", o.busy, 0, 1024, "busy loops"),
	)
	switch {
	case err != nil:
		return wrong("%w", err)
	case o.idle < 0 || o.idle > 24*time.Hour:
		return wrong("--idle: %v, want 0 to 86400 seconds", o.idle.Seconds())
	case o.patience < 0:
		return wrong("--patience: %v, want 0 or more", o.patience)
	}
	for _, p := range o.periods {
		if p == 0 {
			return wrong("--period 0s, want 1ms to 1m")
		}
		if _, err := periodOf(configTuned, p); err != nil {
			return err
		}
	}
	if len(o.periods) > 0 && !slices.ContainsFunc(o.configs, func(c string) bool { return c != configLAN }) {
		return wrong("--period %v, want none with --config lan alone, which probes every second", o.periods)
	}
	return nil
}

// settings returns the rows. lan has one interval, whatever --period says.
func (o *options) settings() (all []setting) {
	periods := o.periods
	if len(periods) == 0 {
		periods = []time.Duration{100 * time.Millisecond}
	}
	for _, config := range o.configs {
		for _, n := range o.members {
			if config == configLAN {
				all = append(all, setting{config, n, lanPeriod})
				continue
			}
			for _, p := range periods {
				all = append(all, setting{config, n, p})
			}
		}
	}
	return all
}

// run measures and prints the report.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := o.measure(ctx, stderr)
	if err != nil {
		return err
	}
	return r.write(stdout, o.json)
}

// measure takes all samples, in random order, and returns the report.
func (o *options) measure(ctx context.Context, stderr io.Writer) (*report, error) {
	settings := o.settings()
	r := newReport(o)
	samples := make([][]sampled, len(settings))
	jobs := measure.Jobs{
		N: len(settings) * o.samples, What: "groups", Rand: rand.New(rand.NewPCG(o.seed, 0)),
		Progress: func(done, all int) { fmt.Fprintf(stderr, "swimbench: %d of %d groups\n", done, all) },
		Run: func(number int) error {
			i := number % len(settings)
			s, err := o.sample(ctx, &settings[i], rand.New(rand.NewPCG(o.seed, uint64(number)+1)))
			samples[i] = append(samples[i], s)
			return err
		},
	}
	if err := jobs.RunAll(ctx); err != nil {
		return nil, err
	}
	r.NoteAfter()
	for i := range settings {
		r.Rows = append(r.Rows, o.row(&settings[i], samples[i]))
	}
	return r, nil
}

// sampled is what one group has shown.
type sampled struct {
	started      bool          // each member has seen all others
	first, last  time.Duration // from the kill; 0: no survivor, or not every one, reported the victim
	falseReports int           // of members that lived, after the rest that follows the start
	missed       int           // survivors that did not report the victim
	rate         float64       // datagrams of a member in a second; 0: unknown
}

// sample starts a group, kills one of its members, unless o.idle is set, and looks at the reports of the others.
func (o *options) sample(ctx context.Context, c *setting, rng *rand.Rand) (s sampled, err error) {
	g, err := startGroup(ctx, o, c)
	defer g.end()
	if err != nil {
		return s, err
	}
	if s.started, err = g.wait(ctx, startTimeout, g.isComplete); err != nil {
		return s, err
	}
	if !s.started { // on a machine that is too busy for them, members go on reporting each other
		s.falseReports = g.falseReports(0, nobody, 0)
		return s, nil
	}
	rest := max(5*c.period, time.Second) // in which the news of the start come to rest
	if err := g.pause(ctx, rest); err != nil {
		return s, err
	}
	if err := g.startBusy(o.busy); err != nil {
		return s, err
	}
	begin := xunix.Monotonic()
	before, err := g.count(ctx)
	if err != nil {
		return s, err
	}
	settle := o.idle
	if settle == 0 { // the kill falls anywhere between two probes
		settle = rest + time.Duration(rng.Int64N(int64(c.period)))
	}
	if err := g.pause(ctx, settle); err != nil {
		return s, err
	}
	after, err := g.count(ctx)
	if err != nil {
		return s, err
	}
	s.rate = rateOf(before, after)
	if o.idle > 0 {
		s.falseReports = g.falseReports(begin, nobody, 0)
		return s, nil
	}
	victim := rng.IntN(c.members)
	killed := g.killMember(victim)
	if _, err := g.wait(ctx, o.patienceOf(c), func() bool { return g.knows(victim, killed).missed == 0 }); err != nil {
		return s, err
	}
	g.mu.Lock()
	known := g.knows(victim, killed)
	g.mu.Unlock()
	s.first, s.last, s.missed = known.first, known.last, known.missed
	s.falseReports = g.falseReports(begin, victim, killed)
	return s, nil
}

// patienceOf returns how long survivors may take.
func (o *options) patienceOf(c *setting) time.Duration {
	if o.patience > 0 {
		return o.patience
	}
	return max(60*c.period, 30*time.Second)
}

// rateOf returns how many datagrams a member sends in a second, on average; 0: unknown.
func rateOf(before, after []count) float64 {
	if len(before) == 0 || len(after) != len(before) {
		return 0
	}
	sum := 0.0
	for i := range before {
		sum += float64(after[i].datagrams-before[i].datagrams) / (after[i].at - before[i].at).Seconds()
	}
	return sum / float64(len(before))
}

// nobody is no member's number.
const nobody = -1

// knowledge is what survivors know of a death. Times are from the kill.
type knowledge struct {
	first, last time.Duration
	missed      int
}

// knows returns what the survivors know of the victim's death. A survivor that held the victim to be dead when it was
// killed, and still does, has reported it falsely. It has no time, and has missed nothing. The caller holds g.mu.
func (g *group) knows(victim int, killed time.Duration) (k knowledge) {
	for i, m := range g.members {
		if i == victim {
			continue
		}
		known, early := time.Duration(0), false
		for _, d := range m.left {
			if d.who != victim {
				continue
			}
			if d.at < killed {
				early = true
				continue
			}
			known = max(d.at-killed, 1)
			break
		}
		switch {
		case known > 0:
			if k.first == 0 || known < k.first {
				k.first = known
			}
			k.last = max(k.last, known)
		case early && !m.alive[victim]:
		default:
			k.missed++
		}
	}
	if k.missed > 0 {
		k.last = 0
	}
	return k
}

// falseReports counts reports since begin of members that lived: all but those of the victim since it was killed.
func (g *group) falseReports(begin time.Duration, victim int, killed time.Duration) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		for _, d := range m.left {
			if d.at >= begin && (d.who != victim || d.at < killed) {
				n++
			}
		}
	}
	return n
}
