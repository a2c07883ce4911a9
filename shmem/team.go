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
	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Team is an ordered set of PEs, on which collectives work. Its PEs are numbered from 0. A *PEError has numbers of
// the world.
type Team struct {
	h     *heap
	coll  *coll.Team     // the collectives of a team on one node; nil for a team that spans nodes
	upper *spanning.Team // those of a team that spans nodes; otherwise nil
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
	outcome    atomic.Pointer[outcome] // of the latest collective of a team that spans nodes
	twin       bridge.Twin             // the communicator that it is one with: see package interop

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
	case *spanning.Team:
		g.plain.upper = t
	}
	return g.plain
}

// member is this PE's side of a team of package coll, or of one that spans nodes.
type member interface {
	Leave()
	Release()
	Size() int
	PEs() []layout.PE
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

// Destroy ends the team and its contexts, after a Quiet of each context, when all its PEs have called it. All its
// handles fail from then on. This holds also if Destroy returns an error, unless that is ErrArgument, ErrUnwinding,
// or ErrMismatch alone. On a nil Team, as a split returns on PEs outside the new team, Destroy does nothing.
//
//   - Errors: ErrArgument for a team that Init made, and while another collective of the team is under way in this
//     PE; ErrDestroyed; ErrUnwinding as World.Finalize; ErrMismatch if PEs compare what they call,
//     and on several nodes; those of Sync.
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
	lost := t.quietContexts(op) // also after an error: the others wait for this PE
	if t.h.checks {
		if err := t.compare(op, 0, 0, "%s", op); err != nil {
			if errors.Is(err, ErrTeamBroken) || !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrArgument) {
				t.release()
			}
			return err
		}
	}
	err := t.dissolve()
	if _, differs := errors.AsType[*spanning.DifferError](err); !differs && !errors.Is(err, coll.ErrConcurrent) {
		t.release()
	}
	if err = t.publicError(op, err); err == nil {
		err = lost
	}
	return err
}

// dissolve is the last meeting of the team.
func (t *Team) dissolve() error {
	if t.upper != nil {
		return t.upper.Dissolve(t.ctx, coll.Words{3: callDestroy})
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
		_, err := concludeSpanning(t, nil)
		return deathIfAgain(err)
	}
	return t.coll.Sync(t.ctx)
}

// deathIfAgain returns the error of a call that is not made again, if a member could not do its part because of a death.
func deathIfAgain(err error) error {
	if again, is := errors.AsType[*spanning.AgainError](err); is {
		return &coll.DeadError{Members: again.Dead}
	}
	return err
}

// conclude ends a collective in which this PE has failed, or not if err is nil. The PEs of a team that spans nodes meet
// then: if one has failed, the call fails on all.
func conclude(t *Team, op string, err error) error {
	if t.upper == nil || t.h.finalized() {
		return err
	}
	_, met := concludeSpanning(t, t.membersError(err))
	return errorOfBoth(err, t.publicError(op, deathIfAgain(met)))
}

// errorOfBoth returns the error of a collective of a team that spans nodes: err is that of this PE's part, and met that of the last
// meeting. What the meeting says of deaths, all PEs return.
func errorOfBoth(err, met error) error {
	if err == nil || isDeathError(met) || met != nil && isDeathError(err) {
		return met
	}
	return err
}

// concludeAlone is conclude for a call that the death of a PE fails for this PE alone, if the team is tolerant: the others meet it.
func concludeAlone(t *Team, op string, err error) error {
	if t.upper == nil || !t.upper.Tolerant() || !isDeathError(err) || t.h.finalized() {
		return conclude(t, op, err)
	}
	if _, met := concludeSpanning(t, nil); met != nil {
		return t.publicError(op, deathIfAgain(met))
	}
	return err
}

// membersError returns an error with the members of the team in place of the PEs of the world.
func (t *Team) membersError(err error) error {
	failed := err
	if dead, is := errors.AsType[*PEError](err); is {
		d := &coll.DeadError{}
		for _, pe := range dead.PEs {
			if i := t.group.of(layout.PE(pe)); i >= 0 {
				d.Members = append(d.Members, i)
			}
		}
		if len(d.Members) > 0 {
			failed = d
		}
	}
	return failed
}

// syncWhole is a further meeting in a call that all PEs are known to have called. It fails in every mode if a member
// has died before it entered the meeting.
func (t *Team) syncWhole(op string) error {
	err := t.meet()
	switch {
	case err != nil:
	case t.upper == nil:
		err = t.coll.Whole()
	default:
		err = wholeSpanning(t)
	}
	return t.publicError(op, err)
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
	if both, ok := errors.AsType[*spanning.DifferError](err); ok {
		return usage(op, ErrMismatch, "PE %d of the team called another collective, or with another root, length, object or element type, than PE %d, want the same call on all PEs", both.Differs, both.First)
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
