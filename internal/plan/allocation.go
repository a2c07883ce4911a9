package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Allocation is the hosts that a job may use.
type Allocation struct {
	Hosts []Host
	From  string // what named them, for messages: SlurmName, "--host a,b"
	// Emulated says that this machine stands for all hosts.
	Emulated bool
}

// IsOfSlurm says whether the hosts are those of a job of Slurm, which has no others.
func (a *Allocation) IsOfSlurm() bool { return a.From == SlurmName }

// Slots returns how many slots all hosts have.
func (a *Allocation) Slots() (sum int) {
	for i := range a.Hosts {
		sum += a.Hosts[i].Slots
	}
	return sum
}

// Emulated returns hosts that this machine plays, node0, node1 and so on, with slots for some PEs, divided
// as evenly as it goes. Each has one at least: jobs that PEs spawn may run where there is no PE.
func Emulated(nodes, pes int) (*Allocation, error) {
	if nodes < 1 || nodes > maxHosts || pes < 1 || pes > maxPEs {
		return nil, fmt.Errorf("%d emulated nodes for %d PEs, want from 1 to %d nodes, and from 1 to %d PEs", nodes, pes, maxHosts, maxPEs)
	}
	a := &Allocation{From: "emulation", Emulated: true, Hosts: make([]Host, nodes)}
	for i := range a.Hosts {
		a.Hosts[i] = Host{Name: fmt.Sprintf("node%d", i), Slots: max(1, pes/nodes)}
		if pes > nodes && i < pes%nodes {
			a.Hosts[i].Slots++
		}
	}
	return a, nil
}

// choice is a host of the allocation that a program may use.
type choice struct {
	node    int  // index in the allocation
	slots   int  // PEs that the program and those before it may have there
	written bool // somebody wrote the slots
}

// hostIndex finds hosts of an allocation by name.
type hostIndex struct {
	full      map[string]int // by the name as it is written
	short     map[string]int // by the first part of the name: its host, or severalHosts
	qualified map[int]string // by host: its name with a domain, if an entry has one
	here      int            // the host that is this machine; -1: none
	is        func(host string) bool
}

func newHostIndex(isHere func(host string) bool) *hostIndex {
	return &hostIndex{full: map[string]int{}, short: map[string]int{}, qualified: map[int]string{}, here: -1, is: isHere}
}

// severalHosts stands for a first part that hosts of several domains share.
const severalHosts = -1

// shortName returns a name without its domain, and whether it has one. Addresses have none.
func shortName(name string) (first string, hasDomain bool) {
	if strings.Trim(name, "0123456789.") == "" || strings.Contains(name, ":") {
		return name, false
	}
	first, _, hasDomain = strings.Cut(name, ".")
	return first, hasDomain
}

// add notes the place of a host that find does not find.
func (x *hostIndex) add(name string, at int) {
	name = strings.ToLower(name)
	x.full[name] = at
	first, _ := shortName(name)
	if _, known := x.short[first]; known {
		x.short[first] = severalHosts
	} else {
		x.short[first] = at
	}
	switch {
	case !x.is(name):
	case x.here < 0:
		x.here = at
	case x.domainsDiffer(name, x.here):
		x.here = -1 // both look like this machine, which has no domain: it is unknown which of them it is
	}
	x.qualify(name, at)
}

// qualify notes that an entry has a host's name with a domain. A name with another domain is then
// that of another host.
func (x *hostIndex) qualify(name string, at int) {
	name = strings.ToLower(name)
	if _, hasDomain := shortName(name); hasDomain && x.qualified[at] == "" {
		x.qualified[at], x.full[name] = name, at
	}
}

// domainsDiffer says whether a name is that of the host at a place but for the domain, and both have one.
func (x *hostIndex) domainsDiffer(name string, at int) bool {
	first, hasDomain := shortName(name)
	other, otherHas := shortName(x.qualified[at])
	return hasDomain && otherHas && first == other && name != x.qualified[at]
}

// find returns the place of a host: by its name, by its name if one side has no domain, or because
// both names are this machine's.
func (x *hostIndex) find(name string) (at int, found bool) {
	name = strings.ToLower(name)
	if at, found = x.full[name]; found {
		return at, true
	}
	first, hasDomain := shortName(name)
	if hasDomain {
		at, found = x.full[first]
	} else {
		at, found = x.short[first]
		found = found && at != severalHosts
	}
	if !found && x.here >= 0 && x.is(name) {
		at, found = x.here, true
	}
	if found && x.domainsDiffer(name, at) {
		return 0, false
	}
	return at, found
}

// errNoAllocation is why a relative host means nothing.
var errNoAllocation = errors.New("no hosts are given that it could choose from, want --hostfile or an allocation of Slurm")

// allocation makes the allocation of a job, and the index of its hosts.
func (j *Job) allocation() (*Allocation, *hostIndex, error) {
	x := newHostIndex(j.IsHere)
	if j.Given != nil {
		a := &Allocation{Hosts: slices.Clone(j.Given.Hosts), From: j.Given.From, Emulated: j.Given.Emulated}
		for i := range a.Hosts {
			x.add(a.Hosts[i].Name, i)
			j.assume(&a.Hosts[i])
		}
		return a, x, nil
	}
	a := &Allocation{}
	for i := range j.Apps {
		app := &j.Apps[i]
		list, from := app.List, app.ListFrom
		if app.File != nil {
			list, from = app.File, app.FileFrom
		}
		if list == nil {
			continue
		}
		if a.From == "" {
			a.From = from
		} else if !strings.Contains(a.From, from) {
			a.From += ", " + from
		}
		if err := j.merge(a, x, list, app.File != nil); err != nil {
			return nil, nil, err
		}
	}
	return a, x, nil
}

// assume gives a host for which nothing is written as many slots as this machine has processors.
func (j *Job) assume(h *Host) {
	if h.Slots <= 0 {
		h.Slots, h.Assumed = max(1, j.Processors), true
		h.Guess = h.Slots
		if h.MaxSlots > 0 {
			h.Slots = min(h.Slots, h.MaxSlots)
		}
	}
}

// merge adds the hosts of a program's list to the allocation. What programs say of one host does
// not add up: the largest number counts.
func (j *Job) merge(a *Allocation, x *hostIndex, list []Entry, isFile bool) error {
	if isFile {
		if i := slices.IndexFunc(list, isRelative); i >= 0 {
			return fmt.Errorf("%s: %w", list[i].at, errNoAllocation)
		}
	}
	hosts, own, from, err := j.sum(list, isFile)
	if err != nil {
		return err
	}
	for i, h := range hosts {
		at, found := x.find(h.Name)
		if !found {
			at = len(a.Hosts)
			x.add(h.Name, at)
			a.Hosts = append(a.Hosts, h)
		}
		x.qualify(h.Name, at)
		x.qualify(own.qualified[i], at)
		if !found {
			continue
		}
		old := &a.Hosts[at]
		if h.Slots > old.Slots || old.Assumed && !h.Assumed {
			old.Slots, old.Assumed, old.Guess = h.Slots, h.Assumed, h.Guess
		}
		old.addDetails(&h)
	}
	if len(a.Hosts) > maxHosts {
		return fmt.Errorf("%s: want at most %d hosts", from, maxHosts)
	}
	return nil
}

// Extend adds the hosts of a list, or of a file, that are not in the allocation. One that is there has at least the slots
// that are written. IsHere says whether a name is this machine's; processors are the slots of hosts of a file without.
func (a *Allocation) Extend(list []Entry, isFile bool, processors int, isHere func(host string) bool) error {
	x := newHostIndex(isHere)
	for i := range a.Hosts {
		x.add(a.Hosts[i].Name, i)
	}
	return (&Job{Processors: processors, IsHere: isHere}).merge(a, x, list, isFile)
}

// addDetails takes over what h does not say.
func (h *Host) addDetails(other *Host) {
	if h.User == "" {
		h.User = other.User
	}
	if h.Port == 0 {
		h.Port = other.Port
	}
	if h.MaxSlots == 0 {
		h.MaxSlots = other.MaxSlots
	}
}

// sum makes one host of all entries of a list that name it, and an index of these. A host's slots are the sum of those
// that are written, and one for each entry without. A host that a file names once and without
// slots has one for each processor. From is where the list stands.
func (j *Job) sum(list []Entry, isFile bool) (hosts []Host, x *hostIndex, from string, err error) {
	x = newHostIndex(j.IsHere)
	var entries []int // by host: how many entries name it
	for i := range list {
		e := &list[i]
		from = e.at
		if e.kind != byName {
			continue // a list that has only such ones adds no host
		}
		at, found := x.find(e.Name)
		if !found {
			at = len(hosts)
			x.add(e.Name, at)
			h := e.Host
			h.Slots, h.Assumed, h.Guess = 0, false, 0
			hosts, entries = append(hosts, h), append(entries, 0)
		}
		x.qualify(e.Name, at)
		h := &hosts[at]
		h.addDetails(&e.Host)
		entries[at]++
		n := e.Slots
		switch {
		case n == AllSlots:
			n = max(1, j.Processors)
			h.Guess = n
		case n == 0 && (!isFile || entries[at] > 1):
			n = 1
		}
		if n == 0 {
			h.Assumed = true
		} else if h.Assumed { // the entry before had no slots
			h.Slots, h.Assumed = h.Slots+1, false
		}
		if h.Slots += n; h.Slots > maxSlots {
			return nil, nil, from, fmt.Errorf("%s: host %s has %d slots, want at most %d", e.at, h.Name, h.Slots, maxSlots)
		}
	}
	for i := range hosts {
		j.assume(&hosts[i])
		if h := &hosts[i]; h.MaxSlots > 0 && h.Slots > h.MaxSlots {
			return nil, nil, from, fmt.Errorf("%s: host %s has %d slots, want at most its max-slots %d", from, h.Name, h.Slots, h.MaxSlots)
		}
	}
	return hosts, x, from, nil
}

// choices returns the hosts that a program may use, in the order of its own lists. Used are the
// PEs that programs before it have on each host.
func (j *Job) choices(app *App, a *Allocation, x *hostIndex, used []int) ([]choice, error) {
	all := make([]choice, len(a.Hosts))
	for i := range a.Hosts {
		all[i] = choice{node: i, slots: a.Hosts[i].Slots, written: !a.Hosts[i].Assumed}
	}
	var err error
	if app.File != nil && j.Given != nil {
		c := chooser{Job: j, all: a, index: x, among: all, used: used, isFile: true}
		all, err = c.choose(app.File)
	} else if app.File != nil {
		all, err = j.own(app.File, x)
	}
	if err != nil || app.List == nil {
		return all, err
	}
	hasFile := func(o App) bool { return o.File != nil }
	if j.Given == nil && slices.ContainsFunc(app.List, isRelative) && !slices.ContainsFunc(j.Apps, hasFile) {
		return nil, fmt.Errorf("%s: %w", app.ListFrom, errNoAllocation)
	}
	c := chooser{Job: j, all: a, index: x, among: all, used: used}
	return c.choose(app.List)
}

// isRelative says whether an entry names a host by its place.
func isRelative(e Entry) bool { return e.kind != byName }

// own returns the hosts of a program's own file, all of which are in the allocation.
func (j *Job) own(file []Entry, x *hostIndex) (chosen []choice, err error) {
	hosts, _, _, err := j.sum(file, true)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		at, _ := x.find(hosts[i].Name)
		chosen = append(chosen, choice{node: at, slots: hosts[i].Slots, written: !hosts[i].Assumed})
	}
	return chosen, nil
}

// chooser chooses hosts by a list.
type chooser struct {
	*Job
	all    *Allocation
	index  *hostIndex
	among  []choice
	used   []int // by host: PEs that programs before have there
	isFile bool  // the list is a hostfile
}

// choose returns the hosts that a list names, in the order of the list. A name without slots
// counts one in --host, as with Open MPI. In a hostfile it leaves the host all it has, as an entry does
// that names a host by its place.
func (c *chooser) choose(list []Entry) (chosen []choice, err error) {
	place := map[int]int{} // by host: its place in chosen
	can := map[int]choice{}
	for _, has := range c.among {
		can[has.node] = has
	}
	for i := range list {
		e := &list[i]
		nodes, err := e.nodes(c.all, c.index, c.among, c.used)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.at, err)
		}
		for _, node := range nodes {
			has, may := can[node]
			if !may {
				return nil, fmt.Errorf("%s: %w", e.at, unknownHost(e, c.all, c.among))
			}
			at, again := place[node]
			if !again {
				at = len(chosen)
				place[node] = at
				chosen = append(chosen, choice{node: node})
			}
			c.add(&chosen[at], e, has, again)
			if h := &chosen[at]; c.Given != nil && h.slots > has.slots || h.slots > maxSlots {
				return nil, fmt.Errorf("%s: %d slots of host %s, want at most %d, which it has in %s",
					e.at, h.slots, c.all.Hosts[node].Name, min(has.slots, maxSlots), c.all.From)
			}
		}
	}
	return chosen, nil
}

// add adds the slots of an entry to a host that it names.
func (c *chooser) add(h *choice, e *Entry, has choice, again bool) {
	switch {
	case e.Slots > 0:
		h.slots += e.Slots
		h.written = true
	case e.Slots == AllSlots || c.isFile || isRelative(*e):
		h.slots = has.slots
		h.written = has.written
	default:
		h.slots++
		h.written = h.written || again
	}
}

// nodes returns the places in the allocation of the hosts that an entry names.
func (e *Entry) nodes(a *Allocation, x *hostIndex, among []choice, used []int) ([]int, error) {
	switch e.kind {
	case byIndex:
		if e.number >= len(a.Hosts) {
			return nil, fmt.Errorf("+n%d, want at most +n%d: %s has %d hosts", e.number, len(a.Hosts)-1, a.From, len(a.Hosts))
		}
		return []int{e.number}, nil
	case byEmpty:
		var empty []int
		for _, c := range among {
			if used[c.node] == 0 && (e.number == 0 || len(empty) < e.number) {
				empty = append(empty, c.node)
			}
		}
		if len(empty) == 0 || len(empty) < e.number {
			return nil, fmt.Errorf("+e: %d hosts without PEs, want %d or more", len(empty), max(1, e.number))
		}
		return empty, nil
	}
	at, found := x.find(e.Name)
	if !found {
		return nil, unknownHost(e, a, among)
	}
	return []int{at}, nil
}

// unknownHost reports a host that cannot be chosen because it is not there.
func unknownHost(e *Entry, a *Allocation, among []choice) error {
	var known []string
	for _, c := range among {
		known = append(known, a.Hosts[c.node].Name)
	}
	return &UnknownError{
		Text: fmt.Sprintf("host %s, want one of %s: %s", quote(e.Name), a.From, Few(known, ", ")),
		Word: e.Name, Known: known,
	}
}

// Few joins the first few of some words, and says how many there are more.
func Few(words []string, separator string) string {
	const most = 4
	if len(words) <= most+1 {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], separator), len(words)-most)
}
