package cli

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// farFaults is how many faults TestFarFaults makes.
var (
	farFaults    = flag.Int("far-faults", 8, "how many faults TestFarFaults makes in jobs that put, add and get between nodes; from 20 on, some are longer than the lease")
	farFaultSeed = flag.Uint64("far-fault-seed", 0, "the seed of the faults of TestFarFaults; 0: another one each time")
)

const (
	longFaults = 20  // from how many faults on some are long
	allFaults  = 200 // from how many faults on there are some of each kind
)

// How long faults last.
const (
	faultLease  = 3 * time.Second // of jobs with long faults
	faultShort  = 800 * time.Millisecond
	faultLong   = faultLease + 2*time.Second
	faultSilent = 13 * time.Second              // connections without an acknowledgement end after 10 s
	faultHung   = 14 * time.Second              // its daemon takes 10 s to find that an agent is hung
	faultApart  = 2*faultLease + 25*time.Second // two agents give each other up after 2 leases and 20 s
)

// faultKind is a kind of fault.
type faultKind struct {
	name  string
	lasts time.Duration // 0: up to faultShort, if it is over at all
	apart bool          // it needs nodes with networks of their own
	kills bool          // somebody dies
	parts bool          // it is known afterwards only who is lost
	make  func(f *faultJob, kind *faultKind)
}

var shortFaultKinds = []faultKind{
	{name: "kill PE", kills: true, make: (*faultJob).killPE},
	{name: "kill agent", kills: true, make: (*faultJob).killSomeNode},
	{name: "kill daemon", kills: true, make: (*faultJob).killSomeNode},
	{name: "stop PE", make: (*faultJob).stopPE},
	{name: "stop agent", make: (*faultJob).stopNode},
	{name: "stop daemon", make: (*faultJob).stopNode},
	{name: "cut node", apart: true, make: (*faultJob).cutNode},
	{name: "cut pair", apart: true, make: (*faultJob).cutSomePair},
	{name: "reset", apart: true, make: (*faultJob).reset},
}

// longFaultKinds last longer than the lease. They are rare, because they take long.
var longFaultKinds = []faultKind{
	{name: "stop PE", lasts: faultLong, make: (*faultJob).stopPE},
	{name: "stop agent", lasts: faultLong, make: (*faultJob).stopNode},
	{name: "hang agent", lasts: faultHung, kills: true, make: (*faultJob).stopNode},
	{name: "stop daemon", lasts: faultLong, kills: true, make: (*faultJob).stopNode},
	{name: "cut node", lasts: faultLong, apart: true, kills: true, make: (*faultJob).cutNode},
	{name: "cut pair", lasts: faultSilent, apart: true, make: (*faultJob).cutSomePair},
	{name: "part pair", lasts: faultApart, apart: true, parts: true, make: (*faultJob).cutSomePair},
}

// title returns the name of a kind and whether it is long.
func (k *faultKind) title() string {
	if k.lasts > 0 {
		return "long " + k.name
	}
	return k.name
}

// isHere says whether a kind is possible on nodes with networks of their own, or without.
func (k *faultKind) isHere(apart bool) bool { return apart || !k.apart }

// lasting returns how long a fault lasts.
func (f *faultJob) lasting(kind *faultKind) time.Duration {
	if kind.lasts > 0 {
		return kind.lasts
	}
	return time.Duration(f.rng.Int64N(int64(faultShort)))
}

// Whatever fails, and whenever, PEs that put, add and get on other nodes hang nowhere, read and execute nothing wrong, and have errors
// only of PEs that have died.
func TestFarFaults(t *testing.T) {
	t.Parallel()
	seed := *farFaultSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng, ways := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	total := *farFaults
	if testing.Short() {
		total = min(total, 3)
	}
	apart := canCut()
	turns := map[bool]int{false: ways.IntN(100), true: ways.IntN(100)}
	all := faultTally{made: map[string][2]int{}, jobs: map[string]int{}}
	for done, i := 0, 0; done < total && !t.Failed(); i++ {
		f := newFaultJob(rand.New(rand.NewPCG(rng.Uint64(), 0)), apart && i%2 == 1)
		f.vary(ways)
		var long *faultKind
		if total >= longFaults && (i%8 == 7 || i%16 == 4) {
			long = longFaultKind(f.apart, turns[f.apart])
			turns[f.apart]++
		}
		faults := f.choose(min(3, total-done), long)
		done += len(faults)
		t.Run(fmt.Sprint(i), func(t *testing.T) { f.test(t, faults) })
		all.add(f, faults)
	}
	all.tell(t, total, apart)
}

// vary chooses how a job does the same things.
func (f *faultJob) vary(rng *rand.Rand) {
	f.express, f.cyclic = rng.IntN(2) == 0, rng.IntN(2) == 0
	f.radix = []int{2, 32}[rng.IntN(2)] // 32 is the default of oshrun, not of tests
}

// way says how a job does what all do.
func (f *faultJob) way() string {
	return fmt.Sprintf("networks: %t, express sockets: %t, radix %d, cyclic: %t", f.apart, f.express, f.radix, f.cyclic)
}

// longFaultKind returns one long kind after the other.
func longFaultKind(apart bool, turn int) *faultKind {
	var here []*faultKind
	for i := range longFaultKinds {
		if k := &longFaultKinds[i]; k.isHere(apart) {
			here = append(here, k)
		}
	}
	return here[turn%len(here)]
}

// choose chooses up to most faults for a job. If long is not nil, it is one of them.
func (f *faultJob) choose(most int, long *faultKind) (faults []*faultKind) {
	f.n, f.early, f.calm = 4+f.rng.IntN(5), f.rng.IntN(3) == 0, f.rng.IntN(4) == 0
	many := 1 + f.rng.IntN(most)
	if long != nil {
		faults = append(faults, long)
		f.calm = f.calm && !long.kills && !long.parts
		if long.parts {
			return faults // others would have to know who is lost
		}
	}
	for len(faults) < many {
		if kind := &shortFaultKinds[f.rng.IntN(len(shortFaultKinds))]; kind.isHere(f.apart) && (!f.calm || !kind.kills) {
			faults = append(faults, kind)
		}
	}
	if len(faults) == 1 && faults[0].kills {
		f.recovers = f.rng.IntN(3) > 0
	}
	return faults
}

// faultTally counts what TestFarFaults has done.
type faultTally struct {
	made     map[string][2]int // by kind: with express sockets, and without
	jobs     map[string]int    // by way
	reported int               // jobs with express sockets whose PEs have reported
	used     int               // those of them with round trips by these sockets
	trips    uint64
}

// add counts a job.
func (a *faultTally) add(f *faultJob, faults []*faultKind) {
	column := 1
	if f.express {
		column = 0
	}
	for _, kind := range faults {
		n := a.made[kind.title()]
		n[column]++
		a.made[kind.title()] = n
	}
	a.jobs[f.way()]++
	trips := uint64(0)
	for _, r := range f.reports {
		trips += r.Trips
	}
	if f.express && len(f.reports) > 0 {
		a.reported++
		if a.trips += trips; trips > 0 {
			a.used++
		}
	}
}

// tell says what was done. Many faults have to be of all kinds, in most jobs with express sockets while these are used.
func (a *faultTally) tell(t *testing.T, total int, apart bool) {
	t.Helper()
	var text strings.Builder
	sum := [2]int{}
	for _, title := range slices.Sorted(maps.Keys(a.made)) {
		n := a.made[title]
		fmt.Fprintf(&text, "%-18s %4d with express sockets, %4d without\n", title, n[0], n[1])
		sum[0], sum[1] = sum[0]+n[0], sum[1]+n[1]
	}
	fmt.Fprintf(&text, "%-18s %4d with express sockets, %4d without\n", "all", sum[0], sum[1])
	for _, way := range slices.Sorted(maps.Keys(a.jobs)) {
		fmt.Fprintf(&text, "%4d jobs with %s\n", a.jobs[way], way)
	}
	t.Logf("%sby express sockets: %d round trips, in %d of %d jobs that have them and have reported", &text, a.trips, a.used, a.reported)
	if total < allFaults || t.Failed() {
		return
	}
	for _, kind := range slices.Concat(shortFaultKinds, longFaultKinds) {
		if n := a.made[kind.title()]; kind.isHere(apart) && n == [2]int{} {
			t.Errorf("of %d faults, none is %q", total, kind.title())
		}
	}
	if 2*a.used <= a.reported {
		t.Errorf("express sockets have carried round trips in %d of %d jobs, want more than half", a.used, a.reported)
	}
}
