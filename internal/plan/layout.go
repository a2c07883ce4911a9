package plan

import (
	"fmt"
	"slices"
)

// By says in which order the slots of hosts are filled.
type By uint8

// The orders.
const (
	BySlot By = iota // host after host
	ByNode           // one PE on each host in turn
	BySeq            // PE i on the i-th entry of the list or file
)

// Rank says how the PEs of a program are numbered.
type Rank uint8

// The numberings.
const (
	RankDefault Rank = iota // RankNode if mapped ByNode, otherwise RankSlot
	RankSlot                // host after host
	RankNode                // one on each host in turn
)

// Over says whether hosts may have more PEs than slots.
type Over uint8

// The permissions.
const (
	OverDefault   Over = iota // only if the one host is this machine
	OverAllowed               // up to max-slots
	OverForbidden             // never
)

// App is what a program of a job asks for.
type App struct {
	PEs       int     // 0: one for each slot, or PerNode on each host
	PerNode   int     // PEs on a host at most; 0: not limited
	MostNodes int     // the first so many of its hosts are used; 0: all
	File      []Entry // of its hostfile; nil: it has none
	FileFrom  string  // the option with its value, for messages
	List      []Entry // of its --host; nil: it has none
	ListFrom  string  // likewise
}

// Job is what is to be laid out over hosts.
//
// The allocation is Given, or what the programs' files and lists name. A program uses
//
//   - all hosts, if it has neither file nor list;
//   - those of its file, which chooses among Given;
//   - those of its list, which chooses among Given and its file.
//
// The programs are laid out one after another, each from the first of its hosts on.
type Job struct {
	Apps        []App
	Given       *Allocation // hosts of Slurm, or emulated ones; nil: none
	Used        []int       // by host of Given: PEs of other jobs that it has; nil: none
	By          By
	Rank        Rank
	Over        Over
	MostPerNode int                    // PEs that any node takes at most; 0: not limited
	Processors  int                    // of this machine: the slots of hosts for which none are written
	IsHere      func(host string) bool // says whether a name is this machine's
}

// Node is a host of a job.
type Node struct {
	Host Host
	Here bool  // the host is this machine
	PEs  []int // rising
}

// Layout says which PEs of a job are on which host.
type Layout struct {
	Allocation Allocation
	Nodes      []Node // those with PEs, in the order of their lowest PE
	Spare      []Node // those without: spawned jobs may run on them
	Homes      []int  // by PE: the index of its node
	Counts     []int  // by program: how many PEs it has
	Block      bool   // each node's PEs have consecutive numbers
}

// IsHere says whether all PEs are on this machine. So they are without a layout.
func (l *Layout) IsHere() bool { return l == nil || len(l.Nodes) == 1 && l.Nodes[0].Here }

// HasSpare says whether all PEs are on this machine, and other hosts are left for spawned jobs.
func (l *Layout) HasSpare() bool { return l != nil && l.IsHere() && len(l.Spare) > 0 }

// Elsewhere returns the name of the host of a PE, if that is not this machine.
func (l *Layout) Elsewhere(pe int) (host string, elsewhere bool) {
	if l.IsHere() || l.Allocation.Emulated {
		return "", false
	}
	n := &l.Nodes[l.Homes[pe]]
	return n.Host.Name, !n.Here
}

// TooManyPEsError reports a program with more PEs than hosts take.
type TooManyPEsError struct {
	Program     int // index among the job's
	Want, Have  int
	Lacks       string // what there is too little of: slots, hosts
	Limit       string // where Have comes from
	CanOverload bool   // the PEs would have found room if hosts could be oversubscribed
}

// Error says how many there are, and why not more.
func (e *TooManyPEsError) Error() string {
	return fmt.Sprintf("not enough %s: %s, want at most %d: %s", e.Lacks, plural(e.Want, "PE"), e.Have, e.Limit)
}

// TooManyNodesError reports a program that asks for more hosts than it has.
type TooManyNodesError struct {
	Program    int // index among the job's
	Want, Have int
	From       string // what names the hosts
}

// Error says how many there are.
func (e *TooManyNodesError) Error() string {
	return fmt.Sprintf("%s, want at most %d, the hosts of %s", plural(e.Want, "node"), e.Have, e.From)
}

// layouter lays out a job.
type layouter struct {
	*Job
	all   *Allocation
	index *hostIndex
	over  bool
	used  []int // by host: PEs that it has
	homes []int // by PE: the host

	seq  []int // by entry: the host, for BySeq
	next int   // the next entry
}

// Lay lays out the PEs.
func (j *Job) Lay() (*Layout, error) {
	job := *j
	job.Apps = slices.Clone(j.Apps)
	if job.IsHere == nil {
		job.IsHere = func(string) bool { return false }
	}
	if job.MostPerNode == 0 {
		job.MostPerNode = maxPEs
	}
	return job.lay()
}

// lay does so for a job without defaults.
func (j *Job) lay() (*Layout, error) {
	all, index, err := j.allocation()
	if err != nil {
		return nil, err
	}
	if len(all.Hosts) == 0 {
		for i := range j.Apps {
			if j.Apps[i].List != nil {
				return nil, fmt.Errorf("%s: %w", j.Apps[i].ListFrom, errNoAllocation)
			}
		}
		return nil, fmt.Errorf("no hosts, want --host, --hostfile or an allocation of Slurm")
	}
	for i := range j.Apps {
		if app := &j.Apps[i]; len(all.Hosts) == 1 && app.PerNode == 1 && app.PEs > 0 {
			app.PerNode = 0 // -N 1 of srun: one node
		}
	}
	l := &layouter{Job: j, all: all, index: index, used: make([]int, len(all.Hosts))}
	copy(l.used, j.Used)
	l.over = j.Over == OverAllowed || j.Over == OverDefault && len(all.Hosts) == 1 && index.here == 0
	out := &Layout{Allocation: *all}
	for i := range j.Apps {
		n, err := l.layApp(i)
		if err != nil {
			return nil, err
		}
		out.Counts = append(out.Counts, n)
	}
	l.finish(out)
	return out, nil
}

// finish numbers the hosts that have PEs.
func (l *layouter) finish(out *Layout) {
	number := make([]int, len(l.used)) // by host: the index of its node, plus 1
	out.Homes = make([]int, len(l.homes))
	for pe, at := range l.homes {
		if number[at] == 0 {
			out.Nodes = append(out.Nodes, Node{Host: l.all.Hosts[at], Here: at == l.index.here})
			number[at] = len(out.Nodes)
		}
		out.Homes[pe] = number[at] - 1
		n := &out.Nodes[number[at]-1]
		n.PEs = append(n.PEs, pe)
	}
	for at, n := range number {
		if n == 0 {
			out.Spare = append(out.Spare, Node{Host: l.all.Hosts[at], Here: at == l.index.here})
		}
	}
	out.Block = !slices.ContainsFunc(out.Nodes, func(n Node) bool { return n.PEs[len(n.PEs)-1]-n.PEs[0] >= len(n.PEs) })
}

// layApp lays out a program and returns how many PEs it has.
func (l *layouter) layApp(program int) (int, error) {
	app := &l.Apps[program]
	if l.By == BySeq {
		return l.laySeq(program)
	}
	hosts, err := l.choices(app, l.all, l.index, l.used)
	if err != nil {
		return 0, err
	}
	if app.MostNodes > len(hosts) {
		return 0, &TooManyNodesError{Program: program, Want: app.MostNodes, Have: len(hosts), From: l.sourceOf(app)}
	}
	if app.MostNodes > 0 {
		hosts = hosts[:app.MostNodes]
	}
	for i := range hosts {
		h := &hosts[i]
		if !h.written { // PEs that are asked for on each host find room where nothing else is said
			h.slots = max(h.slots, app.PerNode)
		}
		of := &l.all.Hosts[h.node]
		if app.PerNode > 0 { // says it
			of.Guess = 0
		}
		if of.Slots = max(of.Slots, h.slots); of.MaxSlots > 0 {
			of.Slots = min(of.Slots, of.MaxSlots)
		}
	}
	n := app.PEs
	if n == 0 {
		if n = l.count(app, hosts); n == 0 {
			return 0, l.tooMany(program, 1, hosts)
		}
	}
	if n > maxPEs-len(l.homes) {
		return 0, fmt.Errorf("%d PEs, want at most %d of a job", n+len(l.homes), maxPEs)
	}
	counts, placed := l.fill(app, hosts, n)
	if placed < n {
		return 0, l.tooMany(program, n, hosts)
	}
	l.rank(hosts, counts)
	for i := range hosts {
		l.used[hosts[i].node] += counts[i]
	}
	return n, nil
}

// sourceOf returns what names the hosts of a program.
func (l *layouter) sourceOf(app *App) string {
	switch {
	case app.List != nil:
		return app.ListFrom
	case app.File != nil:
		return app.FileFrom
	}
	return l.all.From
}

// count returns how many PEs a program has that does not say it.
func (l *layouter) count(app *App, hosts []choice) (n int) {
	for i := range hosts {
		if app.PerNode > 0 {
			n += app.PerNode
		} else {
			n += l.free(app, &hosts[i])
		}
	}
	return n
}

// free returns how many slots a program has left on a host.
func (l *layouter) free(app *App, h *choice) int {
	return max(0, min(h.slots-l.used[h.node], l.most(app, h.node)))
}

// most returns how many PEs of a program a host takes, slots aside.
func (l *layouter) most(app *App, at int) int {
	most := l.MostPerNode - l.used[at]
	if limit := l.all.Hosts[at].MaxSlots; limit > 0 {
		most = min(most, limit-l.used[at])
	}
	if app.PerNode > 0 {
		most = min(most, app.PerNode)
	}
	return max(0, most)
}

// fill says how many of n PEs each host gets, and how many that are together.
//
// If there are not enough slots and hosts may be oversubscribed, PEs beyond the slots go to the
// hosts in turn. By node, the slots then do not count at all, as with Open MPI.
func (l *layouter) fill(app *App, hosts []choice, n int) (counts []int, placed int) {
	counts = make([]int, len(hosts))
	most := make([]int, len(hosts))
	free, room := make([]int, len(hosts)), 0
	for i := range hosts {
		most[i] = l.most(app, hosts[i].node)
		free[i] = l.free(app, &hosts[i])
		room += free[i]
	}
	enough := n <= room
	switch {
	case !enough && !l.over:
		return counts, min(n-1, room)
	case l.By == ByNode && enough:
		return counts, deal(counts, free, n)
	case l.By == ByNode:
		return counts, deal(counts, most, n)
	}
	for i := range counts {
		counts[i] = min(free[i], n-placed)
		placed += counts[i]
	}
	return counts, placed + deal(counts, most, n-placed)
}

// deal gives n more PEs to the hosts one by one in turn, while a host has fewer than it takes. It
// returns how many PEs found a host.
func deal(counts, most []int, n int) (dealt int) {
	left := make([]int, len(counts))
	for i := range counts {
		left[i] = most[i] - counts[i]
	}
	eachInTurn(left, n, func(i int) {
		counts[i]++
		dealt++
	})
	return dealt
}

// eachInTurn calls f for one host after the other, again and again, left[i] times for host i, and
// n times in all. Left has numbers of 0 or more.
func eachInTurn(left []int, n int, f func(i int)) {
	open := make([]int, 0, len(left)) // hosts that are not done, so that those that are cost nothing
	for i := range left {
		if left[i] > 0 {
			open = append(open, i)
		}
	}
	for len(open) > 0 && n > 0 {
		still := open[:0]
		for _, i := range open {
			if n == 0 {
				return
			}
			f(i)
			n--
			if left[i]--; left[i] > 0 {
				still = append(still, i)
			}
		}
		open = still
	}
}

// rank numbers the PEs of a program.
func (l *layouter) rank(hosts []choice, counts []int) {
	if l.Rank == RankNode || l.Rank == RankDefault && l.By == ByNode {
		eachInTurn(slices.Clone(counts), maxPEs, func(i int) { l.homes = append(l.homes, hosts[i].node) })
		return
	}
	for i := range hosts {
		l.homes = append(l.homes, slices.Repeat([]int{hosts[i].node}, counts[i])...)
	}
}

// laySeq puts each PE of a program on the host of the next entry.
func (l *layouter) laySeq(program int) (int, error) {
	app := &l.Apps[program]
	if list, _ := app.seqList(); list != nil || program == 0 {
		if err := l.readSeq(app); err != nil {
			return 0, err
		}
	}
	left := l.seq[l.next:]
	n := app.PEs
	if n == 0 {
		n = len(left)
	}
	if n > len(left) || n == 0 {
		return 0, &TooManyPEsError{Program: program, Want: max(1, n), Have: len(left), Lacks: "hosts", Limit: "--map-by seq puts one on each host that the list or file has"}
	}
	for _, at := range left[:n] {
		if h := &l.all.Hosts[at]; l.most(app, at) == 0 || app.PerNode > 0 && l.used[at] >= app.PerNode {
			return 0, &TooManyPEsError{Program: program, Want: l.used[at] + 1, Have: l.used[at], Lacks: "slots", Limit: fmt.Sprintf("host %s takes no more", h.Name)}
		}
		l.used[at]++
		l.homes = append(l.homes, at)
	}
	l.next += n
	return n, nil
}

// seqList returns the entries that a program's PEs are put on, and whether they choose among others.
func (app *App) seqList() (list []Entry, chooses bool) {
	if app.List != nil {
		return app.List, app.File != nil
	}
	return app.File, false
}

// readSeq notes the hosts of a program's entries.
func (l *layouter) readSeq(app *App) error {
	l.seq, l.next = nil, 0
	hosts, err := l.choices(app, l.all, l.index, l.used) // also checks the entries
	if err != nil {
		return err
	}
	list, _ := app.seqList()
	if list == nil {
		for i := range hosts {
			l.seq = append(l.seq, hosts[i].node)
		}
		return nil
	}
	for i := range list {
		nodes, err := list[i].nodes(l.all, l.index, hosts, l.used)
		if err != nil {
			return fmt.Errorf("%s: %w", list[i].at, err)
		}
		l.seq = append(l.seq, nodes...)
	}
	return nil
}

// tooMany says why n PEs of a program find no room.
func (l *layouter) tooMany(program, n int, hosts []choice) error {
	app := &l.Apps[program]
	e := &TooManyPEsError{Program: program, Want: n, Lacks: "slots"}
	slots, hard := 0, 0
	var words []string
	for i := range hosts {
		h := &hosts[i]
		slots += l.free(app, h)
		hard += l.most(app, h.node)
		word := fmt.Sprintf("%s (%d", l.all.Hosts[h.node].Name, h.slots)
		if used := l.used[h.node]; used > 0 {
			word += fmt.Sprintf(", %d taken", used)
		}
		words = append(words, word+")")
	}
	switch {
	case slots < hard && !l.over:
		e.Have, e.Limit, e.CanOverload = slots, "the slots of "+Few(words, ", "), n <= hard
	case app.PerNode > 0 && hard == app.PerNode*len(hosts):
		e.Have, e.Lacks, e.Limit = hard, "hosts", fmt.Sprintf("%d on each of %s", app.PerNode, countHosts(len(hosts)))
	case slices.ContainsFunc(hosts, func(h choice) bool { return l.all.Hosts[h.node].MaxSlots > 0 }):
		e.Have, e.Limit = hard, fmt.Sprintf("the max-slots of %s, and %d on any node", countHosts(len(hosts)), l.MostPerNode)
	default:
		e.Have, e.Limit = hard, fmt.Sprintf("%d on each of %s", l.MostPerNode, countHosts(len(hosts)))
	}
	return e
}
