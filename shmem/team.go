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
	"github.com/goshmem/goshmem/rma"
)

// Team is an ordered set of PEs, on which collectives work. Its PEs are numbered from 0. A *PEError has numbers of
// the world.
type Team struct {
	h     *heap
	coll  *coll.Team // the collectives of a team on one node; nil for a team that spans nodes
	upper upper      // those of a team that spans nodes; otherwise nil
	group *group
	me    int
	ctx   context.Context //nolint:containedctx // With's purpose
}

// Mode says what the death of a member means to the collectives of a team. Allocation and the making of teams fail in
// every mode.
type Mode uint8

// The modes.
const (
	ModeDefault  Mode = iota // the mode of the team that it is made from
	ModeTolerant             // collectives go on among the survivors
	ModeStrict               // collectives fail on all survivors
)

// String returns the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

var modeNames = [...]string{ModeDefault: "ModeDefault", ModeTolerant: "ModeTolerant", ModeStrict: "ModeStrict"}

// TeamConfig is the configuration of a new team. The zero value and nil mean the defaults.
type TeamConfig struct {
	NumContexts int  // the most contexts of the team that each PE may have at once; 0: no limit
	Mode        Mode // must be the same on all PEs
}

// group is what all handles of a team share.
type group struct {
	numbers               // which PE of the world has which number in the team
	config     TeamConfig // its mode is the team's, never ModeDefault
	predefined bool       // Init has made it, and it lives until Finalize
	plain      *Team      // the handle without a With
	destroyed  atomic.Bool

	mu       sync.Mutex
	contexts map[*ctxShared]struct{}
}

// newTeam returns the first handle of a team.
func newTeam(h *heap, t member, members numbers, config TeamConfig) *Team {
	g := &group{numbers: members, config: config}
	g.plain = &Team{h: h, group: g, me: g.of(h.me)}
	switch t := t.(type) {
	case *coll.Team:
		g.plain.coll = t
	case upper:
		g.plain.upper = t
	}
	return g.plain
}

// member is this PE's side of a team of package coll, or of one that spans nodes.
type member interface {
	Leave()
	Release()
	Size() int
}

// made returns this PE's side of the team.
func (t *Team) made() member {
	if t.upper != nil {
		return t.upper
	}
	return t.coll
}

// teams are the teams that the program has made and not destroyed.
type teams struct {
	sync.Mutex
	live map[member]struct{}
}

// add adds a team that the program has made.
func (s *teams) add(t member) {
	s.Lock()
	defer s.Unlock()
	if s.live == nil {
		s.live = map[member]struct{}{}
	}
	s.live[t] = struct{}{}
}

// remove removes a team that the program has destroyed.
func (s *teams) remove(t member) {
	s.Lock()
	defer s.Unlock()
	delete(s.live, t)
}

// leaveAll leaves and releases all teams, at the end of the world.
func (s *teams) leaveAll() {
	s.Lock()
	defer s.Unlock()
	for t := range s.live {
		t.Leave()
		t.Release()
	}
	s.live = nil
}

// MyPE returns this PE's number in the team, or -1 for a nil Team.
//
//   - Source: shmem_team_my_pe.
func (t *Team) MyPE() int {
	if t == nil || t.group == nil {
		return -1
	}
	return t.me
}

// NPEs returns the number of PEs in the team, or 0 for a nil Team.
//
//   - Source: shmem_team_n_pes.
func (t *Team) NPEs() int {
	if t == nil || t.group == nil {
		return 0
	}
	return t.group.n
}

// With returns a handle of the same team, whose collectives end with an error when ctx ends. That breaks the team for
// all its PEs. PEs that are still in the collective may read its source on this PE, complete the collective with what
// they find there, and write to its destination here. The program may use both objects again after Agree has
// returned.
func (t *Team) With(ctx context.Context) *Team {
	if t == nil {
		return nil
	}
	return &Team{h: t.h, coll: t.coll, upper: t.upper, group: t.group, me: t.me, ctx: ctx}
}

// Config returns the configuration of the team. Its mode is never ModeDefault.
//
//   - Errors: ErrArgument for a nil Team, ErrDestroyed, ErrFinalized.
//   - Concurrent calls: allowed.
//   - Source: shmem_team_get_config.
func (t *Team) Config() (TeamConfig, error) {
	if err := t.checkUsable("Team.Config"); err != nil {
		return TeamConfig{}, err
	}
	return t.group.config, nil
}

// Translate returns the number in team to of the PE with number pe in this team. It returns -1 and false if that PE
// is no member of to, if pe is out of range, and if a team is nil or destroyed.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_team_translate_pe.
func (t *Team) Translate(pe int, to *Team) (int, bool) {
	if t.checkUsable("Team.Translate") != nil || to.checkUsable("Team.Translate") != nil || t.h != to.h || pe < 0 || pe >= t.group.n {
		return -1, false
	}
	i := to.group.of(t.group.pe(pe))
	return i, i >= 0
}

// PeerIn is Sym.Peer for the PE with number pe in the team.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_team_ptr.
func PeerIn[T any](t *Team, x Sym[T], pe int) ([]T, bool) {
	if t.checkUsable("PeerIn") != nil || pe < 0 || pe >= t.group.n {
		return nil, false
	}
	return peerSlice(t.h, x, t.group.pe(pe))
}

// SplitStrided makes a team of size PEs of this team: number i of the new team is number start + i*stride of this
// one. A negative stride reverses the order. A stride of 0 is allowed for a team of one PE. Every PE of this team
// calls SplitStrided. A PE that is not in the new team gets a nil Team and no error.
//
//   - Errors: ErrArgument for numbers outside this team and a negative NumContexts, ErrMismatch, ErrTooMany,
//     ErrDestroyed, ErrTeamBroken, the end of the team's With; *PEError with ErrPEDied when a member has died. All
//     PEs get the same error, and there is no new team.
//   - Collective: over the team, with the same arguments; NumContexts may differ.
//   - Source: shmem_team_split_strided.
func (t *Team) SplitStrided(start, stride, size int, cfg *TeamConfig) (*Team, error) {
	const op = "Team.SplitStrided"
	if err := t.checkUsable(op); err != nil {
		return nil, err
	}
	c := cfg.resolve(t)
	words := coll.Words{uint64(start), uint64(stride), uint64(size), callSplitStrided | uint64(c.configWord())<<callBits}
	if err := t.matchArguments(op, words); err != nil {
		return nil, err
	}
	if err := t.checkTriplet(op, start, stride, size); err != nil {
		return nil, err
	}
	err := t.checkConfig(op, &c, 1, func(int) numbers { return t.group.part(start, stride, size) })
	if err != nil {
		return nil, err
	}
	return t.makeTeam(op, c, start, stride, size)
}

// checkTriplet checks the numbers of a new team's members.
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
		return usage(op, ErrArgument, "stride 0 of %d PEs, want another stride, or a team of one PE", size)
	case stride <= -n || stride >= n || start+(size-1)*stride < 0 || start+(size-1)*stride >= n:
		return usage(op, ErrArgument, "%d PEs from PE %d on with stride %d, want all of them from 0 to %d", size, start, stride, n-1)
	}
	return nil
}

// Split2D places the PEs of this team row by row in a grid with rows of xrange PEs, and makes two teams for each PE:
// its row and its column. PE i is at x = i mod xrange, y = i div xrange. The first result is the PE's row, where its
// number is x. The second result is its column, where its number is y. The last row may be shorter. An xrange beyond
// the number of PEs means that number.
//
//   - Errors: ErrArgument for an xrange below 1, and those of SplitStrided. All PEs get the same error, and there are
//     no new teams.
//   - Collective: over the team, with the same arguments; NumContexts may differ.
//   - Source: shmem_team_split_2d.
func (t *Team) Split2D(xrange int, cx, cy *TeamConfig) (x, y *Team, err error) {
	const op = "Team.Split2D"
	if err := t.checkUsable(op); err != nil {
		return nil, nil, err
	}
	row, column := cx.resolve(t), cy.resolve(t)
	words := coll.Words{uint64(xrange), uint64(row.configWord()), uint64(column.configWord()), callSplit2D}
	if err := t.matchArguments(op, words); err != nil {
		return nil, nil, err
	}
	if xrange < 1 {
		return nil, nil, usage(op, ErrArgument, "rows of %d PEs, want 1 or more", xrange)
	}
	n := t.NPEs()
	xrange = min(xrange, n)
	width := func(first int) int { return min(xrange, n-first) }
	height := func(place int) int { return (n - place + xrange - 1) / xrange }
	err = t.checkConfig(op, &row, height(0), func(i int) numbers { return t.group.part(i*xrange, 1, width(i*xrange)) })
	if err == nil {
		err = t.checkConfig(op, &column, xrange, func(i int) numbers { return t.group.part(i, xrange, height(i)) })
	}
	if err != nil {
		return nil, nil, err
	}
	first, place := t.me-t.me%xrange, t.me%xrange
	if x, err = t.makeTeam(op, row, first, 1, width(first)); err != nil {
		return nil, nil, err
	}
	if y, err = t.makeTeam(op, column, place, xrange, height(place)); err != nil {
		abandon(x, err)
		return nil, nil, err
	}
	return x, y, nil
}

// matchArguments compares what the members called. If one made another call, or passed other arguments, all members
// get an error.
func (t *Team) matchArguments(op string, w coll.Words) error {
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", describeCall(w)); err != nil {
			return err
		}
	}
	differs, first, other, err := t.same(w)
	if err != nil {
		return t.publicError(op, err)
	}
	if differs >= 0 {
		return usage(op, ErrMismatch, "PE 0 of the team called %s, PE %d called %s: want the same call on all PEs",
			describeCall(first), differs, describeCall(other))
	}
	return nil
}

// same compares the words of all members, and fails in every mode if a member has died before it gave its own.
func (t *Team) same(w coll.Words) (differs int, first, other coll.Words, err error) {
	if t.upper != nil {
		return t.upper.Same(t.ctx, w)
	}
	differs, first, other, err = t.coll.Same(t.ctx, w)
	if err == nil {
		err = t.coll.Whole()
	}
	return differs, first, other, err
}

// resolve returns the configuration of a team that is made from parent, with the defaults filled in. It does not
// check the values: all members do so together.
func (c *TeamConfig) resolve(parent *Team) TeamConfig {
	if c == nil {
		return TeamConfig{Mode: parent.group.config.Mode}
	}
	d := *c
	if d.Mode == ModeDefault {
		d.Mode = parent.group.config.Mode
	}
	return d
}

// configWord is what members compare of their configurations: the mode, and whether NumContexts is valid.
type configWord uint64

const configBad configWord = 1 << 8 // NumContexts is negative

// configWord returns what members compare of the configuration.
func (c *TeamConfig) configWord() configWord {
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

// checkConfig checks the configuration of the new teams of a call. All PEs check all these teams: if one is refused, no PE
// makes any, and none waits for the others.
func (t *Team) checkConfig(op string, c *TeamConfig, teams int, team func(i int) numbers) error {
	if c.Mode > ModeStrict {
		return usage(op, ErrArgument, "mode %d, want ModeDefault, ModeTolerant or ModeStrict", c.Mode)
	}
	if c.NumContexts < 0 {
		return usage(op, ErrArgument, "NumContexts %d, want 0 or more", c.NumContexts)
	}
	if c.Mode != ModeTolerant || t.upper == nil {
		return nil
	}
	for i := range teams {
		if pes := team(i); t.h.spans(&pes) {
			return usage(op, ErrArgument, "ModeTolerant for a team whose PEs are on several nodes, which is not possible yet: want ModeStrict, or PEs of one node")
		}
	}
	return nil
}

// makeTeam makes a team of PEs of this team, whose numbers and configuration were checked.
func (t *Team) makeTeam(op string, c TeamConfig, start, stride, size int) (*Team, error) {
	members := make([]int, size)
	for i := range members {
		members[i] = start + i*stride
	}
	part := t.group.part(start, stride, size)
	if !slices.Contains(members, t.me) {
		members = nil
	}
	n, err := t.split(members, c.Mode == ModeTolerant)
	if err != nil {
		return nil, t.publicError(op, err)
	}
	if n == nil {
		return nil, nil //nolint:nilnil // this PE is not in the new team, which is no error
	}
	return registerTeam(t.h, n, part, c), nil
}

// split makes teams of members of this team. It returns nil for a PE that gives no members.
func (t *Team) split(members []int, tolerant bool) (member, error) {
	if t.upper != nil {
		return t.upper.Split(t.ctx, members, tolerant)
	}
	n, err := coll.Split(t.ctx, t.coll, members, tolerant)
	if n == nil {
		return nil, err
	}
	return n, err
}

// registerTeam returns the first handle of a team that a split has made, and has Finalize leave the team.
func registerTeam(h *heap, t member, members numbers, c TeamConfig) *Team {
	h.teams.add(t)
	return newTeam(h, t, members, c)
}

// Destroy ends the team and its contexts, after a Quiet of each context, when all its PEs have called it. All its
// handles fail from then on. This holds also if Destroy returns an error, unless that is ErrArgument, ErrUnwinding,
// or ErrMismatch alone. On a nil Team, as a split returns on PEs outside the new team, Destroy does nothing.
//
//   - Errors: ErrArgument for a team that Init made, and while another collective of the team is under way in this
//     PE; ErrDestroyed; ErrUnwinding as World.Finalize; ErrMismatch if PEs compare what they call; those of Sync.
//   - Collective: over the team.
//   - Source: shmem_team_destroy.
func (t *Team) Destroy() error {
	const op = "Team.Destroy"
	if t == nil {
		return nil
	}
	if err := t.checkUsable(op); err != nil {
		return err
	}
	if t.group.predefined {
		return usage(op, ErrArgument, "the teams of World.Team and World.Shared cannot be destroyed, want one that a split made")
	}
	if err := refuseUnwinding(op); err != nil {
		return err
	}
	if err := t.quietContexts(op); err != nil {
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
	err := t.dissolve()
	if !errors.Is(err, coll.ErrConcurrent) {
		t.release()
	}
	return t.publicError(op, err)
}

// dissolve is the last meeting of the team.
func (t *Team) dissolve() error {
	if t.upper != nil {
		return t.upper.Dissolve(t.ctx)
	}
	return t.coll.Dissolve(t.ctx)
}

// quietContexts completes the operations of all contexts of the team. In shared memory one Quiet completes all
// operations of this goroutine, so that of one context is enough. Operations on other nodes are complete context by
// context.
func (t *Team) quietContexts(op string) error {
	t.group.mu.Lock()
	defer t.group.mu.Unlock()
	var errs []error
	for m := range t.group.contexts {
		if t.h.far == nil {
			rma.Drain(t.h.mark)
			return nil
		}
		errs = append(errs, t.h.quietFar(op, t.ctx, m))
	}
	rma.Drain(t.h.mark)
	return errors.Join(errs...)
}

// release makes the handles of a team and of its contexts fail.
func (t *Team) release() {
	t.h.teams.remove(t.made())
	t.made().Release()
	t.group.destroyed.Store(true)
	t.group.mu.Lock()
	defer t.group.mu.Unlock()
	for m := range t.group.contexts {
		m.disableHandles()
	}
	t.group.contexts = nil
}

// Sync returns when all PEs of the team have called it. It completes no operations: call Quiet first for that.
//
//   - Errors: those of collectives, see the package documentation.
//   - Collective: over the team.
//   - Source: shmem_team_sync.
func (t *Team) Sync() error { return t.sync("Team.Sync") }

// sync is Sync, World.Sync, World.Barrier and the barrier of Finalize.
func (t *Team) sync(op string) error {
	if err := t.checkMade(op); err != nil {
		return err
	}
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", strings.TrimPrefix(op, "Team.")); err != nil { // World.Sync and Sync of its team are the same call
			return err
		}
	}
	return t.publicError(op, t.meet())
}

// meet is a meeting of all members.
func (t *Team) meet() error {
	if t.upper != nil {
		return t.upper.Sync(t.ctx)
	}
	return t.coll.Sync(t.ctx)
}

// syncWhole is a further meeting in a call that all PEs are known to have called. It fails in every mode if a member
// has died before it entered the meeting.
func (t *Team) syncWhole(op string) error {
	err := t.publicError(op, t.meet())
	if err == nil && t.upper == nil {
		err = t.publicError(op, t.coll.Whole())
	}
	return err
}

// checkMade checks that t came from a World that is not finalized. This is enough for collectives: they find out
// themselves that a team was destroyed.
func (t *Team) checkMade(op string) error {
	switch {
	case t == nil || t.group == nil:
		return usage(op, ErrArgument, "team is nil, want w.Team(), or one that a split has made and that this PE is in")
	case t.h.finalized():
		return usage(op, ErrFinalized, "called after Finalize")
	}
	return nil
}

// checkUsable checks that t was made and is not destroyed.
func (t *Team) checkUsable(op string) error {
	if err := t.checkMade(op); err != nil {
		return err
	}
	if t.group.destroyed.Load() {
		return usage(op, ErrDestroyed, "team was destroyed before this call, want a live one")
	}
	return nil
}

// publicError turns an error of package coll into one of this package, with PEs of the world.
func (t *Team) publicError(op string, err error) error {
	if err == nil {
		return nil
	}
	if dead, ok := errors.AsType[*coll.DeadError](err); ok {
		t.h.alertLayers()
		pes := t.group.worldPEs(dead.Members)
		slices.Sort(pes)
		return t.h.errorOfDead(op, pes)
	}
	if gone, ok := errors.AsType[*coll.LeftError](err); ok {
		return &PEError{PEs: []int{int(t.group.pe(gone.Member))}, Op: op, Err: ErrPEFinalized}
	}
	if other, ok := errors.AsType[*coll.OtherError](err); ok {
		return usage(op, ErrMismatch, "PE %d of the team called another collective, or with another root, length, object or element type, want the same call on all PEs", other.Member)
	}
	if late, ok := errors.AsType[*coll.LateError](err); ok {
		return fmt.Errorf("shmem.%s: waiting for PE %d: %w%s", op, t.group.pe(late.Member), late.Err, t.recoveryHint(op, "; the team is broken"))
	}
	switch {
	case errors.Is(err, coll.ErrBroken):
		return fmt.Errorf("shmem.%s: %w%s", op, ErrTeamBroken, t.recoveryHint(op, ""))
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

// recoveryHint returns text, which says that the team is broken, and a hint at what the program can do. It returns ""
// for Team.Agree and its kin, after whose failure Shrink fails too, and for Destroy.
func (t *Team) recoveryHint(op, text string) string {
	switch op {
	case "Team.Agree", "Team.Validate", "Team.Shrink", "Team.Destroy":
		return ""
	}
	if t.group.predefined {
		return text + "; hint: Team.Shrink makes a new team of its PEs, and Finalize ends well without waiting"
	}
	return text + "; hint: Team.Shrink makes a new team of its PEs"
}
