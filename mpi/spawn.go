package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Spawn
//
// Parents are the ranks that call Spawn, children the processes that it starts. All of them are the ranks of one communicator, both: first the parents, then
// the children. An Intercomm is made of it (intercomm.go), of another number, and of a communicator of each side.
//
//  1. The parents agree on the two numbers. Children have used none of them: theirs begin where those of the parents did.
//  2. The root has oshrun start the children. Their environment says who the parents are, and the numbers (parentage).
//  3. Parents map the memory of the children, and agree that all have. Then the root tells each child so.
//  4. Children map the memory of the parents in Init, before they read any message, and wait for the word of the root.
//  5. Parents and children agree that all have come so far. Either all of them have the Intercomm then, or Spawn and Init fail everywhere.
//
// A death in 1 to 3 ends Spawn for all parents by their agreement. Children whose root dies, or leaves, before it has given its word fail in Init. If they fail there
// for another reason, they tell the parents that they leave. A child that ends without Init is published as dead by the step process.

// Command is a program that Spawn starts.
type Command struct {
	Path string   // its file; a name without a slash is searched in PATH, then in the working directory
	Args []string // its arguments, without its name
	Env  []string // NAME=value, in addition to the environment of the root
	Dir  string   // its working directory; empty: that of the root's start

	// Hosts says on which nodes of a job of several ones its processes run, as oshrun --host does: names with commas between. Empty: oshrun fills the slots of all
	// nodes, and goes around them when none is left.
	Hosts string
}

// spawnTag makes the numbers of calls that make the Intercomm of Spawn differ from those of others.
const spawnTag = 8 * interTag

// mostSpawned bounds the processes of a program: what all nodes may have. oshrun knows how many fit on those that there are.
const mostSpawned = layout.MaxLocal * layout.WireNodes

// goTag is the tag of the word of the root to the children.
const goTag = 0

// Spawn starts n processes, which are a job of their own: their World.Comm has all of them, and their World.Parent is the other side of the Intercomm that
// Spawn returns.
//
//   - Shape: root is the same at all ranks. cmd and n matter at the root only.
//   - Completion: the children have called Init, and can be sent messages.
//   - Errors: ErrSpawn when the children could not be started or have not connected; at ranks other than the root, the error of the root says more. *RankError
//     for ranks of c that have died. After an error, no rank has an Intercomm. Children that were started get an error from Init.
//   - Cost: the start of the processes; three agreements; at each process, the mapping of the segments of the other ones on its node.
//   - Nodes: the processes may run on all nodes on which oshrun has started processes of the first job. On others their agents are missing, which is an ErrSpawn.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_spawn.
//
// oshrun counts the children as processes of its own: it prints what they write, and waits for their ends. When one of them fails, all processes end, or,
// with oshrun --recover, that one only. Finalize does not wait for the other side.
func Spawn(c *Comm, cmd Command, n, root int) (*Intercomm, error) {
	return spawnApps(c, "Spawn", []Command{cmd}, []int{n}, root)
}

// SpawnMultiple is Spawn for several programs, whose processes are one job: those of the first program come first.
//
//   - Shape: counts has the number of processes of each program. cmds and counts matter at the root only.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_spawn_multiple.
func SpawnMultiple(c *Comm, cmds []Command, counts []int, root int) (*Intercomm, error) {
	return spawnApps(c, "SpawnMultiple", cmds, counts, root)
}

// spawnApps is Spawn and SpawnMultiple.
func spawnApps(c *Comm, op string, cmds []Command, counts []int, root int) (*Intercomm, error) {
	if err := c.checkRoot(op, root); err != nil {
		return nil, handledOf(c, err)
	}
	e := c.g.e
	if !e.job.Launched() {
		return nil, handledOf(c, usage(op, ErrSpawn, "%v; hint: start the program by oshrun", job.ErrNoPeers))
	}
	s := &spawning{c: c, op: op, root: root, base: -1}
	err := s.start(cmds, counts)
	if failed := s.agree(c, err); failed != nil {
		s.giveUp()
		return nil, handledOf(c, c.g.reportDeath(failed))
	}
	s.enter()
	if c.g.me == root {
		err = s.tellChildren()
	}
	x, err := s.connect(c, err)
	return x, handledOf(c, c.g.reportDeath(s.explain(err)))
}

// explain returns what an error of both, whose ranks are those of both, means to a parent.
func (s *spawning) explain(err error) error {
	gone, is := errors.AsType[*RankError](err)
	if !is {
		return err
	}
	died, _ := errors.AsType[*diedError](gone.Err)
	children := &diedError{}
	for i, rank := range gone.Ranks {
		if rank < s.parents {
			continue
		}
		children.ranks = append(children.ranks, rank-s.parents)
		if died != nil {
			children.causes = append(children.causes, died.causes[i])
		}
	}
	switch {
	case children.ranks == nil:
		return err
	case died == nil:
		return fmt.Errorf("mpi.%s: %w: process %v of those started: %w", s.op, ErrSpawn, children.ranks, gone.Err)
	}
	return fmt.Errorf("mpi.%s: %w: process %v of those started: %w", s.op, ErrSpawn, children.ranks, children)
}

// spawning is one side's part in a Spawn.
type spawning struct {
	c       *Comm // of this side
	op      string
	root    int // rank of the parents' root in both
	numbers [2]uint32
	pes     []layout.PE // of both
	parents int         // number of parents
	base    layout.PE   // of the first child; -1: the children are not reached
	started bool        // at the root: the children are started
	job     int         // its number
	both    *Comm       // nil: not made yet
}

// start executes steps 1 to 3 at a parent, without the agreement. A rank that fails goes on: the others wait for it in the broadcast.
func (s *spawning) start(cmds []Command, counts []int) error {
	c, e := s.c, s.c.g.e
	everybody := ranksUpTo(c.g.n)
	var failed error
	for i := range s.numbers {
		if failed == nil {
			s.numbers[i], failed = agreeNumber(c.ctx, c.g, s.op, everybody, spawnTag-i)
		}
	}
	word := []int{-1, 0} // number of the job, number of its processes
	if c.g.me == s.root && failed == nil {
		if word[0], word[1], failed = s.execute(cmds, counts); failed != nil {
			word[0] = -1
		}
	}
	if err := Bcast(c, word, s.root); err != nil && failed == nil {
		failed = err
	}
	if failed != nil {
		return failed
	}
	if word[0] < 0 {
		return usage(s.op, ErrSpawn, "the root, rank %d, could not start processes: its error says why", s.root)
	}
	f, err := reachJob(c.ctx, e, word[0])
	if err != nil {
		return fmt.Errorf("mpi.%s: %w: %w", s.op, ErrSpawn, err)
	}
	s.takeChildren(f)
	return nil
}

// takeChildren notes who the children are.
func (s *spawning) takeChildren(f *foreignJob) {
	s.base, s.job = f.Base, f.Number
	s.parents, s.pes = s.c.g.n, slices.Clone(s.c.g.pes)
	for child := range layout.PE(f.NPEs) {
		s.pes = append(s.pes, f.Base+child)
	}
}

// execute has oshrun start the children. It returns the number of their job, and how many there are.
func (s *spawning) execute(cmds []Command, counts []int) (number, n int, err error) {
	if len(cmds) == 0 || len(cmds) != len(counts) {
		return 0, 0, usage(s.op, ErrArgument, "%d programs and %d numbers of processes, want one number for each program, and at least one", len(cmds), len(counts))
	}
	var apps []client.App
	for i := range cmds {
		if counts[i] < 1 || counts[i] > mostSpawned {
			return 0, 0, usage(s.op, ErrArgument, "%d processes of %q, want 1 to %d", counts[i], cmds[i].Path, mostSpawned)
		}
		app, err := s.appOf(&cmds[i])
		if err != nil {
			return 0, 0, err
		}
		app.Procs = counts[i]
		apps, n = append(apps, app), n+counts[i]
	}
	ctx := s.c.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	if number, err = s.c.g.e.job.Spawn(ctx, apps); err != nil {
		return 0, 0, fmt.Errorf("mpi.%s: %w: %w; oshrun prints why", s.op, ErrSpawn, err)
	}
	s.started, s.job = true, number
	return number, n, nil
}

// appOf returns what oshrun is told of a program.
func (s *spawning) appOf(cmd *Command) (client.App, error) {
	for _, kv := range cmd.Env {
		if name, _, is := strings.Cut(kv, "="); !is || name == "" {
			return client.App{}, usage(s.op, ErrArgument, "environment has %q, want NAME=value", kv)
		}
	}
	if err := cmd.find(); err != nil {
		return client.App{}, usage(s.op, ErrSpawn, "%v", err)
	}
	app := client.App{
		Path: cmd.Path, Args: append([]string{cmd.Path}, cmd.Args...), Dir: cmd.Dir,
		Env: append(slices.Clone(cmd.Env), envvar.Parents+"="+s.parentage()),
	}
	if cmd.Hosts != "" {
		app.Info = append(app.Info, codec.Info{Key: codec.KeyHost, Value: codec.StringValue(cmd.Hosts)})
	}
	return app, nil
}

// find returns an error if the program is not found. oshrun looks for it once more, and for a file relative to Dir.
func (cmd *Command) find() error {
	switch {
	case cmd.Path == "":
		return errors.New(`program "", want a name`)
	case strings.Contains(cmd.Path, "/") || cmd.Dir != "":
		return nil
	}
	if _, err := exec.LookPath(cmd.Path); err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	if _, err := exec.LookPath("./" + filepath.Clean(cmd.Path)); err == nil {
		return nil
	}
	return fmt.Errorf("program %q is not in PATH (%s) and not in the working directory", cmd.Path, os.Getenv("PATH"))
}

// enter makes both. All of its ranks that are there have reserved its number.
func (s *spawning) enter() {
	g, e := s.c.g, s.c.g.e
	e.mu.Lock()
	defer e.unlock()
	of := &group{e: e, me: slices.Index(s.pes, e.me), n: len(s.pes), number: s.numbers[0], pes: s.pes, ranks: rankTable(e, s.pes)}
	inherit(of, g)
	of.uniform.Store(false)
	of.agreesInMessages.Store(false)
	of.info = nil
	e.enter(of)
	s.both = &Comm{g: of, ctx: s.c.ctx}
}

// agree returns nil if all ranks of a communicator that live have no error, and the same for all of them.
func (s *spawning) agree(c *Comm, err error) error {
	flags := uint64(0)
	if err == nil {
		flags = 1
	}
	agreed, failed := agreeInMessages(c, s.op, flags)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case agreed != 1:
		return fmt.Errorf("mpi.%s: %w: another rank has failed in this call: its error says why", s.op, ErrSpawn)
	}
	return nil
}

// giveUp leaves what was made, and tells the other side. After step 2, the root may be the only one that can.
func (s *spawning) giveUp() {
	e := s.c.g.e
	if s.both == nil && s.started && s.base < 0 {
		if f, err := reachJob(context.Background(), e, s.job); err == nil { // otherwise no child is left
			s.takeChildren(f)
		}
	}
	if s.both == nil && s.base >= 0 {
		s.enter()
	}
	e.mu.Lock()
	defer e.unlock()
	if s.both != nil {
		s.both.g.tell(noticeLeft)
		markFreedLocked(s.both.g, false)
	} else if s.numbers[0] != 0 {
		e.release(s.numbers[0])
	}
	if s.numbers[1] != 0 {
		e.release(s.numbers[1])
	}
}

// tellChildren gives the word of the root to the children.
func (s *spawning) tellChildren() error {
	for rank := s.parents; rank < len(s.pes); rank++ {
		if _, err := s.both.g.startSend(s.op, spanOf([]int{1}), rank, goTag); err != nil && !errors.Is(err, ErrDied) {
			return err
		}
	}
	return nil
}

// connect executes step 5, and makes the Intercomm. err is why this rank cannot.
func (s *spawning) connect(local *Comm, err error) (*Intercomm, error) {
	e := local.g.e
	x := &Intercomm{both: s.both, low: s.both.g.me < s.parents}
	if err == nil {
		x.local, err = newMessagingComm(local, s.op, ranksUpTo(local.g.n), spawnTag-len(s.numbers))
	}
	if failed := s.agree(s.both, err); failed != nil {
		if x.local != nil {
			_ = abandonComm(x.local)
		}
		s.giveUp()
		return nil, failed
	}
	theirs := s.pes[:s.parents]
	if x.low {
		theirs = s.pes[s.parents:]
	}
	e.mu.Lock()
	defer e.unlock()
	x.remote = &Comm{g: enterRemote(e, local.g, theirs, s.numbers[1]), ctx: local.ctx}
	inherit(x.remote.g, local.g)
	return x, nil
}

// abandonComm leaves a communicator, and tells its other ranks.
func abandonComm(c *Comm) error {
	c.g.e.mu.Lock()
	defer c.g.e.unlock()
	c.g.tell(noticeLeft)
	markFreedLocked(c.g, false)
	return nil
}

// ranksUpTo returns the ranks below n.
func ranksUpTo(n int) []int {
	ranks := make([]int, n)
	for rank := range ranks {
		ranks[rank] = rank
	}
	return ranks
}

// # The parentage of a child
//
//	number of both, that of the remote side, rank of the root, then a run of parents each: job:first or job:first-last
//
// All are decimal numbers, separated by blanks.

// parentage returns what children have in their environment.
func (s *spawning) parentage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d", s.numbers[0], s.numbers[1], s.root)
	e := s.c.g.e
	for i := 0; i < s.c.g.n; {
		number, first := identify(e, s.c.g.pes[i])
		last := first
		for i++; i < s.c.g.n; i++ {
			if n, pe := identify(e, s.c.g.pes[i]); n != number || pe != last+1 {
				break
			}
			last++
		}
		fmt.Fprintf(&b, " %d:%d-%d", number, first, last)
	}
	return b.String()
}

// identify returns the number of the job of a PE, and the PE's number there.
func identify(e *engine, pe layout.PE) (number int, there layout.PE) {
	if f := e.foreign.of(pe); f != nil {
		return f.Number, pe - f.Base
	}
	return e.job.Number(), pe
}

// parentRun is parents whose numbers follow each other.
type parentRun struct {
	job         int
	first, last layout.PE
}

// parseParentage reads what parentage has written.
func parseParentage(text string) (s spawning, runs []parentRun, err error) {
	words := strings.Fields(text)
	bad := func(word string) error {
		return fmt.Errorf("%s has %q, want two numbers of communicators, the rank of the root, and parents as job:first-last", envvar.Parents, word)
	}
	if len(words) < 4 {
		return s, nil, bad(text)
	}
	if _, err := fmt.Sscanf(strings.Join(words[:3], " "), "%d %d %d", &s.numbers[0], &s.numbers[1], &s.root); err != nil {
		return s, nil, bad(text)
	}
	for _, word := range words[3:] {
		var r parentRun
		if _, err := fmt.Sscanf(word, "%d:%d-%d", &r.job, &r.first, &r.last); err != nil || r.job < 0 || r.first < 0 || r.last < r.first || r.last >= layout.InboxGuest {
			return s, nil, bad(word)
		}
		runs = append(runs, r)
		s.parents += int(r.last-r.first) + 1
	}
	if s.root < 0 || s.root >= s.parents || s.numbers[0] == 0 || s.numbers[1] <= s.numbers[0] || s.numbers[1] >= partitionedComm {
		return s, nil, bad(text)
	}
	return s, runs, nil
}

// parents is a child's part in the Spawn that has started it, while Init makes its World.
type parents struct {
	spawning

	runs []parentRun
	err  error // why they are not reached
}

// reachEarly reaches the parents of this process, before it reads messages of other nodes, which may be theirs. It returns nil in a process that Spawn has not
// started, and in one that has been connected to its parents before.
func reachEarly(e *engine) *parents {
	text, spawned := os.LookupEnv(envvar.Parents)
	if !spawned || connected.Load() {
		return nil
	}
	p := &parents{}
	if p.spawning, p.runs, p.err = parseParentage(text); p.err != nil {
		p.err = usage("Init", ErrArgument, "%v", p.err)
		return p
	}
	p.op, p.base = "Init", -1
	number, pe, ok := e.job.Parent()
	if root := p.rootOf(p.runs); !ok || root != (parentRun{number, pe, pe}) {
		return nil // the variable is that of another process
	}
	p.err = p.reach(e)
	return p
}

// giveUpEarly ends the engine of an Init that fails before it connects to the parents. They hear that this process leaves: its end is no news to them, as the
// step process takes it for connected since it has reached them.
func (p *parents) giveUpEarly(e *engine) {
	if p == nil || p.runs == nil {
		return
	}
	connected.Store(true) // the next Init does not try again
	p.c = &Comm{g: e.newSelf()}
	p.giveUp()
	e.shutDown()
	settleFarBriefly(e)
}

// giveUp is that of spawning, also when not all parents are reached. Those that are have no communicator with this process: the end of its engine tells them.
func (p *parents) giveUp() {
	p.spawning.giveUp()
	e := p.c.g.e
	if e.far == nil {
		return
	}
	e.mu.Lock()
	defer e.unlock()
	for _, pe := range p.pes {
		if e.isForeign(pe) && !e.isNear(pe) {
			e.laneTo(pe) // tellFarGone tells those that have one
		}
	}
}

// joinParents connects a child to its parents, or tells them that it leaves, if Init fails by failed. It returns failed in a process that Spawn has not started.
func joinParents(w *World, failed error) (*Intercomm, error) {
	const op = "Init"
	p := w.parents
	if p == nil {
		return nil, failed
	}
	w.parents = nil
	s, err := &p.spawning, p.err
	s.c = w.comm
	if failed != nil {
		if p.runs != nil {
			p.giveUp()
		}
		return nil, failed
	}
	if err == nil {
		s.enter()
		_, err = Recv(s.both, make([]int, 1), s.root, goTag)
	}
	if err != nil {
		if p.runs != nil {
			p.giveUp()
		}
		return nil, fmt.Errorf("mpi.%s: the processes that have started this one have given it up: %w", op, err)
	}
	return s.connect(w.comm, nil)
}

// rootOf returns the root.
func (s *spawning) rootOf(runs []parentRun) parentRun {
	rank := layout.PE(s.root)
	for _, r := range runs {
		if n := r.last - r.first + 1; rank >= n {
			rank -= n
			continue
		}
		return parentRun{r.job, r.first + rank, r.first + rank}
	}
	return parentRun{}
}

// reach reserves the numbers, and maps the memory of the parents.
func (p *parents) reach(e *engine) error {
	e.mu.Lock()
	for i, number := range p.numbers {
		if !e.reserve(number) {
			p.numbers[i] = 0
		}
		e.numbers.proposed = max(e.numbers.proposed, number/layout.MaxTeams)
	}
	e.unlock()
	if p.numbers[0] == 0 || p.numbers[1] == 0 {
		return usage(p.op, ErrTooMany, "numbers of communicators are in use, want a first Init")
	}
	for _, r := range p.runs {
		f, err := reachJob(context.Background(), e, r.job)
		if err != nil {
			return err
		}
		if int(r.last) >= f.NPEs {
			return usage(p.op, ErrArgument, "%s has PE %d of job %d, want below %d", envvar.Parents, r.last, r.job, f.NPEs)
		}
		for pe := r.first; pe <= r.last; pe++ {
			p.pes = append(p.pes, f.Base+pe)
		}
	}
	p.base = 0
	p.pes = append(p.pes, allPEs(e.job.NPEs)...)
	return nil
}

// Parent returns the other side of the Intercomm that the Spawn has made which has started this process, or nil if none has. A nil World has none.
//
//   - Source: MPI_Comm_get_parent.
func (w *World) Parent() *Intercomm {
	if w == nil {
		return nil
	}
	return w.parent
}
