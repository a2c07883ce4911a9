package explore

const (
	twoPhaseFile  = "coll/agree/twophase.go"
	voteFile      = "coll/agree/receive.go"
	gatherFile    = "coll/agree/gather.go"
	concludeFile  = "coll/agree/conclude.go"
	terminateFile = "coll/agree/terminate.go"
	earlyFile     = "coll/agree/early.go"
)

// AgreeMutants are those of two-phase commit, and of what the early-returning
// agreement is beside the collective that it is made of.
var AgreeMutants = []Mutant{
	{
		"late-vote", "a vote is counted after the news of the voter's death",
		twoPhaseFile, "if !m.valid(ev.From) || m.isDead(ev.From) { // late", "if !m.valid(ev.From) { // late",
	},
	{
		"decision-without-all", "after a death the coordinator waits for nobody",
		twoPhaseFile, "if !m.gathered() {\n\t\t\treturn out", "if !m.gathered() && len(m.dead) == 0 {\n\t\t\treturn out",
	},
	{
		"uncertain-gives-up", "who has voted is undecided as soon as the coordinator is dead",
		twoPhaseFile, "if !r.voted && m.gone(0) {", "if m.gone(0) {",
	},
	{
		"vote-not-sent-again", "a vote that went to a dead parent is lost",
		twoPhaseFile, "r.sentTo == r.contact {", "r.sentTo != none {",
	},
	{
		"forgotten-waiter", "who asked before the outcome was known is not told",
		concludeFile, "if !m.gone(v) && !m.mine(v) {", "if v < 0 && !m.gone(v) && !m.mine(v) {",
	},
	{
		"log-forgets", "a laggard is told that a round was undecided which was decided",
		voteFile, "case seq == m.last.seq:", "case seq == 0:",
	},
	{
		"votes-counted-twice", "of a dead member that had voted, the children that did so too are counted again",
		gatherFile, "} else if m.gone(c) {", "}\n\t\tif m.gone(c) {",
	},
	{
		"votes-not-awaited", "a dead child's children are not waited for",
		gatherFile, "(!m.gone(c) || !m.whole(c))", "!m.gone(c)",
	},
	{
		"outcome-not-passed", "the outcome does not go to a dead child's children",
		concludeFile, "out = m.sendBelow(c, msg, out)", "continue",
	},
	{
		"termination-hasty", "the termination protocol does not wait for the last answer",
		terminateFile, "case r.open > 0:", "case r.open > 1:",
	},
	{
		"uncertain-still-listens", "who has said that it is uncertain takes a decision from the dead",
		terminateFile, "m.dead = union(m.dead, msg.Failed)\n", "",
	},
	{
		"dependants-not-asked", "the termination protocol does not ask a dead dependant's dependants",
		terminateFile, "out = m.askBelow(c, out)", "continue",
	},
	{
		"flags-ored", "flags are combined by OR",
		gatherFile, "b.vote.Flags &= other.vote.Flags", "b.vote.Flags |= other.vote.Flags",
	},
	{
		"tree-by-hearsay", "the tree leaves out the dead that its member knows, not those that were agreed on",
		concludeFile, "m.group = m.group.without(m.last.ballot.failed)", "m.group = m.group.without(m.dead)",
	},
	{
		"never-undecided", "who has not voted asks like the uncertain when the coordinator is dead",
		twoPhaseFile, "if !r.voted && m.gone(0) {", "if r.seq == 0 {",
	},
	{
		"undecided-at-once", "a call is undecided without any failure",
		twoPhaseFile, "if m.entered < r.seq {", "if m.entered <= r.seq {",
	},
	{
		"coordinator-stays", "after an UNDECIDED round its coordinator is not taken out of the tree",
		concludeFile, "m.group = m.group.without(with(m.group.gone, c))", "",
	},
	{
		"promotes-half-asked", "who promotes has not told all of those who died since",
		terminateFile, "(r.asked[i].told == known || !m.cfg.Promote)", "r.asked[i].told <= known",
	},
	{
		"dead-forgotten", "the dead that voters below know are not listed",
		gatherFile, "b.failed = union(b.failed, other.failed)", "",
	},
	{
		"no-clock", "an early-returning agreement does not ask when nothing comes",
		earlyFile, "return e.step(s, ftco.Event{Kind: ftco.Tick}, nil, out)", "_ = s\n\t\treturn out",
	},
	{
		"stray-dropped", "what comes for the tree that is about to be made is dropped",
		earlyFile, "e.keepStray(from, msg)", "_ = from",
	},
}
