package shmem

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll"
)

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
	part := triplet{start, stride, size}
	if err := c.check(op, t, part); err != nil {
		return nil, err
	}
	return t.makeTeam(op, c, part)
}

// triplet is numbers of a team: start, start+stride, ..., size in all.
type triplet struct{ start, stride, size int }

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
	rows, columns := grid(t.NPEs(), xrange)
	err = row.check(op, t, rows...)
	if err == nil {
		err = column.check(op, t, columns...)
	}
	if err == nil {
		x, err = t.makeTeam(op, row, rows[t.me/len(columns)])
	}
	if err != nil {
		return nil, nil, err
	}
	if y, err = t.makeTeam(op, column, columns[t.me%len(columns)]); err != nil {
		abandon(x, err)
		return nil, nil, err
	}
	return x, y, nil
}

// grid returns the rows and the columns of n numbers in rows of xrange.
func grid(n, xrange int) (rows, columns []triplet) {
	xrange = min(xrange, n)
	for first := 0; first < n; first += xrange {
		rows = append(rows, triplet{first, 1, min(xrange, n-first)})
	}
	for place := range xrange {
		columns = append(columns, triplet{place, xrange, (n - place + xrange - 1) / xrange})
	}
	return rows, columns
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
		d, err := t.upper.Same(t.ctx, w)
		if err = deathIfAgain(err); err == nil {
			t.group.note(-1, d.Failed)
			err = wholeSpanning(t)
		}
		return d.Differs, d.FirstWords, d.DifWords, err
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

// check checks the configuration of the new teams of a call, which are parts of t. All PEs check all of them, also those
// that they are not in, so that they get the same error.
func (c *TeamConfig) check(op string, t *Team, parts ...triplet) error {
	if c.Mode > ModeStrict {
		return usage(op, ErrArgument, "mode %d, want ModeDefault, ModeTolerant or ModeStrict", c.Mode)
	}
	if c.NumContexts < 0 {
		return usage(op, ErrArgument, "NumContexts %d, want 0 or more", c.NumContexts)
	}
	return nil
}

// makeTeam makes a team of a part of this one, which was checked.
func (t *Team) makeTeam(op string, c TeamConfig, p triplet) (*Team, error) {
	members := make([]int, p.size)
	for i := range members {
		members[i] = p.start + i*p.stride
	}
	part := t.group.part(p.start, p.stride, p.size)
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
		return madeMember(t.upper.Split(t.ctx, callSplitStrided, members, tolerant))
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
