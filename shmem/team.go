package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Team is an ordered set of PEs, on which collectives work. Its PEs have numbers from 0
// on in it; a *PEError has numbers of the world.
type Team struct {
	h   *heap
	t   *coll.Team
	g   *group
	me  int
	ctx context.Context //nolint:containedctx // With's purpose
}

// Mode says what the death of a member does to the collectives of a team. Allocation
// and the making of teams fail in any mode.
type Mode uint8

// The modes.
const (
	ModeDefault  Mode = iota // as the team it is made from
	ModeTolerant             // they go on, as collectives of the survivors
	ModeStrict               // they fail on all survivors
)

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

var modeNames = [...]string{ModeDefault: "ModeDefault", ModeTolerant: "ModeTolerant", ModeStrict: "ModeStrict"}

// TeamConfig is what a team is made with. The zero value and nil: the defaults.
type TeamConfig struct {
	NumContexts int  // most contexts of the team at once, of each PE; 0: no limit
	Mode        Mode // the same on all PEs
}

// group is what all handles of a team share.
type group struct {
	pes      []layout.PE // of the world, by number in the team
	numbers  []int32     // in the team, by PE of the world; -1: it is no member
	config   TeamConfig  // with the mode that the team has
	standing bool        // it is there from Init to Finalize
	plain    *Team       // the handle without a With
	gone     atomic.Bool

	mu       sync.Mutex
	contexts map[*common]struct{}
}

// newTeam makes the handle of a group of package coll with these PEs of the world.
func newTeam(h *heap, t *coll.Team, pes []layout.PE, config TeamConfig) *Team {
	g := &group{pes: pes, config: config, numbers: make([]int32, h.npes)}
	for pe := range g.numbers {
		g.numbers[pe] = -1
	}
	for i, pe := range pes {
		g.numbers[pe] = int32(i)
	}
	g.plain = &Team{h: h, t: t, g: g, me: int(g.numbers[h.me])}
	return g.plain
}

// world returns numbers of the team as PEs of the world.
func (g *group) world(numbers []int) []layout.PE {
	pes := make([]layout.PE, len(numbers))
	for i, n := range numbers {
		pes[i] = g.pes[n]
	}
	return pes
}

// teams are those that users have made and not destroyed.
type teams struct {
	sync.Mutex
	live map[*coll.Team]struct{}
}

func (s *teams) add(t *coll.Team) {
	s.Lock()
	defer s.Unlock()
	if s.live == nil {
		s.live = map[*coll.Team]struct{}{}
	}
	s.live[t] = struct{}{}
}

func (s *teams) remove(t *coll.Team) {
	s.Lock()
	defer s.Unlock()
	delete(s.live, t)
}

// leave leaves and releases all, at the end of the world.
func (s *teams) leave() {
	s.Lock()
	defer s.Unlock()
	for t := range s.live {
		t.Leave()
		t.Release()
	}
	s.live = nil
}

// MyPE returns this PE's number in the team, -1 for a nil Team.
//
//   - Source: shmem_team_my_pe.
func (t *Team) MyPE() int {
	if t == nil || t.t == nil {
		return -1
	}
	return t.me
}

// NPEs returns the number of PEs in the team, 0 for a nil Team.
//
//   - Source: shmem_team_n_pes.
func (t *Team) NPEs() int {
	if t == nil || t.t == nil {
		return 0
	}
	return t.t.Size()
}

// With returns the same team, whose collectives end with an error when ctx
// ends; the team is broken then, for all its PEs. Those that are still in the collective may
// yet read its source on this PE, end well with what they find there, and write to its
// destination here: both are the program's again when Agree has returned.
func (t *Team) With(ctx context.Context) *Team {
	if t == nil {
		return nil
	}
	return &Team{h: t.h, t: t.t, g: t.g, me: t.me, ctx: ctx}
}

// Config returns what the team was made with; its mode is never ModeDefault.
//
//   - Errors: ErrArgument for a nil Team, ErrDestroyed, ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: shmem_team_get_config.
func (t *Team) Config() (TeamConfig, error) {
	if err := t.usable("Team.Config"); err != nil {
		return TeamConfig{}, err
	}
	return t.g.config, nil
}

// Translate returns the number in another team of the PE that has number pe in this one,
// and -1 and false if there is none: it is no member there, pe is out of range, or a team
// is nil or destroyed.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_team_translate_pe.
func (t *Team) Translate(pe int, to *Team) (int, bool) {
	if t.usable("Team.Translate") != nil || to.usable("Team.Translate") != nil || t.h != to.h || pe < 0 || pe >= len(t.g.pes) {
		return -1, false
	}
	i := int(to.g.numbers[t.g.pes[pe]])
	return i, i >= 0
}

// PeerIn returns the copy of the object on the PE that has number pe in the team, as
// Sym.Peer does.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_team_ptr.
func PeerIn[T any](t *Team, x Sym[T], pe int) ([]T, bool) {
	if t.usable("PeerIn") != nil || pe < 0 || pe >= len(t.g.pes) {
		return nil, false
	}
	return peer(t.h, x, t.g.pes[pe])
}

// SplitStrided makes a team of size PEs of this team: number i in it is number
// start + i*stride here. The stride may be negative, which turns the order round, and may
// be 0 for a team of one PE. Every PE of this team calls it; who is not in the new team
// gets a nil Team without an error.
//
//   - Errors: ErrArgument for numbers outside this team and a negative NumContexts, ErrMismatch, ErrTooMany,
//     ErrDestroyed, ErrTeamBroken, the end of the team's With; *PEError with ErrPEDied when a
//     member has died. All PEs get the same, and then there is no new team.
//   - Collective: over the team, with the same arguments; NumContexts may differ.
//   - Source: shmem_team_split_strided.
func (t *Team) SplitStrided(start, stride, size int, cfg *TeamConfig) (*Team, error) {
	const op = "Team.SplitStrided"
	if err := t.usable(op); err != nil {
		return nil, err
	}
	c := cfg.or(t)
	words := coll.Words{uint64(start), uint64(stride), uint64(size), callSplitStrided | uint64(c.word())<<callBits}
	if err := t.concur(op, words); err != nil {
		return nil, err
	}
	if err := t.checkTriplet(op, start, stride, size); err != nil {
		return nil, err
	}
	return t.split(op, c, start, stride, size)
}

// checkTriplet checks the numbers of members.
func (t *Team) checkTriplet(op string, start, stride, size int) error {
	n := t.NPEs()
	switch {
	case size < 1 || size > n:
		return usage(op, ErrArgument, "%d PEs of a team of %d, want 1 to %d", size, n, n)
	case start < 0 || start >= n:
		return usage(op, ErrArgument, "first PE %d of a team of %d, want 0 to %d", start, n, n-1)
	case size == 1:
		return nil
	case stride == 0:
		return usage(op, ErrArgument, "stride 0 of %d PEs, want it for a team of one PE only", size)
	case stride <= -n || stride >= n || start+(size-1)*stride < 0 || start+(size-1)*stride >= n:
		return usage(op, ErrArgument, "%d PEs from PE %d on with stride %d, want all of them among the team's 0 to %d", size, start, stride, n-1)
	}
	return nil
}

// Split2D makes two teams for each PE of this team, whose PEs it places row by row in a
// grid with rows of xrange: PE i is at x = i mod xrange, y = i div xrange. The first
// result is the PE's row, in which its number is x, the second one its column, in which
// its number is y. The last row may be shorter. An xrange beyond the number of PEs is
// that number.
//
//   - Errors: ErrArgument for an xrange below 1, and those of SplitStrided. All PEs get the
//     same, and then there are no new teams.
//   - Collective: over the team, with the same arguments; NumContexts may differ.
//   - Source: shmem_team_split_2d.
func (t *Team) Split2D(xrange int, cx, cy *TeamConfig) (x, y *Team, err error) {
	const op = "Team.Split2D"
	if err := t.usable(op); err != nil {
		return nil, nil, err
	}
	row, column := cx.or(t), cy.or(t)
	words := coll.Words{uint64(xrange), uint64(row.word()), uint64(column.word()), callSplit2D}
	if err := t.concur(op, words); err != nil {
		return nil, nil, err
	}
	if xrange < 1 {
		return nil, nil, usage(op, ErrArgument, "rows of %d PEs, want 1 or more", xrange)
	}
	n := t.NPEs()
	xrange = min(xrange, n)
	first := t.me - t.me%xrange
	if x, err = t.split(op, row, first, 1, min(xrange, n-first)); err != nil {
		return nil, nil, err
	}
	place := t.me % xrange
	if y, err = t.split(op, column, place, xrange, (n-place+xrange-1)/xrange); err != nil {
		x.release()
		return nil, nil, err
	}
	return x, y, nil
}

// concur compares what the members have called.
func (t *Team) concur(op string, w coll.Words) error {
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", describe(w)); err != nil {
			return err
		}
	}
	differs, first, other, err := t.t.Same(t.ctx, w)
	if err == nil {
		err = t.t.Whole()
	}
	if err != nil {
		return t.fail(op, err)
	}
	if differs >= 0 {
		return usage(op, ErrMismatch, "PE 0 of the team called %s, PE %d called %s: want the same call on all PEs",
			describe(first), differs, describe(other))
	}
	return nil
}

// or returns the configuration of a team that is made from a parent. What is wrong with
// it is left to be found out by all together.
func (c *TeamConfig) or(parent *Team) TeamConfig {
	if c == nil {
		return TeamConfig{Mode: parent.g.config.Mode}
	}
	d := *c
	if d.Mode == ModeDefault {
		d.Mode = parent.g.config.Mode
	}
	return d
}

// configWord is what members compare of their configurations: the mode, and whether
// NumContexts is a number that can be.
type configWord uint64

const configBad configWord = 1 << 8

func (c *TeamConfig) word() configWord {
	if c.NumContexts < 0 {
		return configWord(c.Mode) | configBad
	}
	return configWord(c.Mode)
}

// String returns the word as a part of a message.
func (c configWord) String() string {
	if c&configBad != 0 {
		return fmt.Sprintf("%v and a negative NumContexts", Mode(c&^configBad))
	}
	return Mode(c).String()
}

// split makes a team of PEs of this team whose numbers are all good.
func (t *Team) split(op string, c TeamConfig, start, stride, size int) (*Team, error) {
	if c.Mode > ModeStrict {
		return nil, usage(op, ErrArgument, "mode %d, want ModeDefault, ModeTolerant or ModeStrict", c.Mode)
	}
	if c.NumContexts < 0 {
		return nil, usage(op, ErrArgument, "NumContexts %d, want 0 or more", c.NumContexts)
	}
	members, pes := make([]int, size), make([]layout.PE, size)
	for i := range members {
		members[i] = start + i*stride
		pes[i] = t.g.pes[members[i]]
	}
	if !slices.Contains(members, t.me) {
		members = nil
	}
	n, err := coll.Split(t.ctx, t.t, members, c.Mode == ModeTolerant)
	if err != nil {
		return nil, t.fail(op, err)
	}
	if n == nil {
		return nil, nil //nolint:nilnil // no member of the new team, which is no error
	}
	return adopt(t.h, n, pes, c), nil
}

// adopt makes the handle of a team that was made by package coll.
func adopt(h *heap, t *coll.Team, pes []layout.PE, c TeamConfig) *Team {
	h.teams.add(t)
	return newTeam(h, t, pes, c)
}

// Destroy ends the team and its contexts, after a Quiet of each, when all its PEs have
// called it. All its handles are dead then, also where it returns an error, unless that
// is ErrArgument, ErrUnwinding, or ErrMismatch alone. On a nil Team, as a split gives to PEs that are not in the
// new team, it does nothing.
//
//   - Errors: ErrArgument for a team that Init made and while another collective of the team
//     is under way in this PE; ErrDestroyed; ErrUnwinding as World.Finalize; ErrMismatch where PEs
//     compare what they call; those of Sync.
//   - Collective: over the team.
//   - Source: shmem_team_destroy.
func (t *Team) Destroy() error {
	const op = "Team.Destroy"
	if t == nil {
		return nil
	}
	if err := t.usable(op); err != nil {
		return err
	}
	if t.g.standing {
		return usage(op, ErrArgument, "the team of all PEs, or of those of a node, cannot be destroyed, want one that was made by a split")
	}
	if err := unwinding(op); err != nil {
		return err
	}
	if err := t.g.plain.quiet(); err != nil {
		return err
	}
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", op); err != nil {
			if errors.Is(err, ErrTeamBroken) || !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrArgument) {
				t.release()
			}
			return err
		}
	}
	err := t.t.Dissolve(t.ctx)
	if !errors.Is(err, coll.ErrConcurrent) {
		t.release()
	}
	return t.fail(op, err)
}

// quiet completes the operations of all contexts of the team. Here, those of this
// goroutine are complete by one fence.
func (t *Team) quiet() error {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	for m := range t.g.contexts {
		for _, p := range m.handles {
			if c := p.Value(); c != nil {
				return c.Quiet()
			}
		}
	}
	return nil
}

// release makes the handles of a team dead, and those of its contexts.
func (t *Team) release() {
	t.h.teams.remove(t.t)
	t.t.Release()
	t.g.gone.Store(true)
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	for m := range t.g.contexts {
		m.end()
	}
	t.g.contexts = nil
}

// Sync returns when all PEs of the team have called it. It does not complete
// any operation: call Quiet before it for that.
//
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team.
//   - Source: shmem_team_sync.
func (t *Team) Sync() error { return t.sync("Team.Sync") }

func (t *Team) sync(op string) error {
	if err := t.made(op); err != nil {
		return err
	}
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", strings.TrimPrefix(op, "Team.")); err != nil { // World.Sync is that of its team
			return err
		}
	}
	return t.fail(op, t.t.Sync(t.ctx))
}

// syncAll is a further meeting in a call that all PEs are known to have called. It fails if a
// member has died short of it, in any mode.
func (t *Team) syncAll(op string) error {
	err := t.fail(op, t.t.Sync(t.ctx))
	if err == nil {
		err = t.fail(op, t.t.Whole())
	}
	return err
}

// made checks that t came from a World that is not finalized. It does for collectives,
// which find out themselves that the team was destroyed.
func (t *Team) made(op string) error {
	switch {
	case t == nil || t.t == nil:
		return usage(op, ErrArgument, "team is nil, want w.Team() or one that a split has made for this PE")
	case t.h.slots.Load() == 0:
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return nil
}

// usable checks that t was made and is not destroyed.
func (t *Team) usable(op string) error {
	if err := t.made(op); err != nil {
		return err
	}
	if t.g.gone.Load() {
		return usage(op, ErrDestroyed, "team was destroyed before this call, want a live one")
	}
	return nil
}

// fail gives an error of package coll its public form: with PEs of the world.
func (t *Team) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok {
		t.h.notice()
		pes := t.g.world(dead.Members)
		slices.Sort(pes)
		return t.h.died(op, pes)
	}
	if gone, ok := errors.AsType[*coll.LeftError](err); ok {
		return &PEError{PEs: []int{int(t.g.pes[gone.Member])}, Op: op, Err: ErrPEFinalized}
	}
	if other, ok := errors.AsType[*coll.OtherError](err); ok {
		return usage(op, ErrMismatch, "PE %d of the team called another collective, or with another root, length, object or element type, want the same on all", other.Member)
	}
	if late, ok := errors.AsType[*coll.LateError](err); ok {
		return fmt.Errorf("shmem.%s: waiting for PE %d: %w%s", op, t.g.pes[late.Member], late.Err, t.wayOut(op, "; the team is broken"))
	}
	switch {
	case errors.Is(err, coll.ErrBroken):
		return fmt.Errorf("shmem.%s: %w%s", op, ErrTeamBroken, t.wayOut(op, ""))
	case errors.Is(err, coll.ErrReleased):
		return usage(op, ErrDestroyed, "team was destroyed before this call, want a live one")
	case errors.Is(err, coll.ErrNoID):
		return usage(op, ErrTooMany, "%v", err)
	case errors.Is(err, coll.ErrMembers):
		return usage(op, ErrMismatch, "%v", err)
	case errors.Is(err, coll.ErrConcurrent):
		return usage(op, ErrArgument, "%v: collectives on one team are called by one goroutine at a time", err)
	}
	return fmt.Errorf("shmem.%s: %w", op, err)
}

// wayOut says what a program can do with a team that is broken, behind a text that says so.
// Calls that would end the same way name nothing.
func (t *Team) wayOut(op, text string) string {
	switch op {
	case "Team.Agree", "Team.Validate", "Team.Shrink", "Team.Destroy":
		return ""
	}
	if t.g.standing {
		return text + "; hint: Team.Shrink makes another of its PEs, and Finalize ends well and waits for nobody"
	}
	return text + "; hint: Team.Shrink makes another of its PEs"
}
