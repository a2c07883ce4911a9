package view

import "cmp"

// judge decides what can be decided now: silent nodes first, because a majority may be gone with them, then nodes
// without a link, then broken links between nodes. It waits for open tasks, whose results may change each of these.
func (c *Core) judge(out []Action) []Action {
	if c.isWaiting() {
		return out
	}
	if due := c.silenceDue(); due != Never {
		if c.now < due {
			return out
		}
		if out = c.judgeSilence(out); c.ended {
			return out
		}
	}
	if out = c.judgeLinks(out); c.isWaiting() {
		return out
	}
	return c.judgeAccusations(out)
}

// Due returns when the core wants a Tick, or Never. While a task is open its end comes first.
func (c *Core) Due() int64 {
	if c.isWaiting() {
		return Never
	}
	due := c.silenceDue()
	if due == Never {
		due = min(c.linksDue(), c.accusationsDue())
	}
	if due == Never {
		return Never
	}
	return due + c.paused
}

// isWaiting reports whether nothing can be judged yet.
func (c *Core) isWaiting() bool {
	if c.held || c.ended {
		return true
	}
	for p := range c.nodes {
		if c.nodes[p].task != resting {
			return true
		}
	}
	return false
}

// silenceDue returns when silent nodes are judged, or Never.
func (c *Core) silenceDue() int64 {
	due := Never
	for p := range c.nodes {
		if m := &c.nodes[p]; m.silent {
			due = min(due, m.silentAt+c.cfg.Window)
		}
	}
	return due
}

// linksDue returns when the next node without a link is judged, or Never.
func (c *Core) linksDue() int64 {
	due := Never
	for p := range c.nodes {
		if m := &c.nodes[p]; m.linkless {
			due = min(due, m.graceEnd)
		}
	}
	return due
}

// accusationsDue returns when broken links between nodes are judged, or Never.
func (c *Core) accusationsDue() int64 {
	due := Never
	for i := range c.accusations {
		if a := &c.accusations[i]; a.answered {
			due = min(due, a.at+c.cfg.Window)
		}
	}
	return due
}

// countSilent returns the number of silent nodes.
func (c *Core) countSilent() int {
	n := 0
	for p := range c.nodes {
		if c.nodes[p].silent {
			n++
		}
	}
	return n
}

// judgeSilence loses all silent nodes together, or ends the job if the front end and the other nodes are no majority of
// the view.
func (c *Core) judgeSilence(out []Action) []Action {
	silent := c.countSilent()
	votes, left := c.size+1, c.size+1-silent
	if 2*left <= votes && !c.cfg.Continue {
		c.ended = true
		return append(out, Action{Kind: EndJob, Why: c.whyEnd(left, votes)})
	}
	whys := make([]string, len(c.nodes)) // before accusations go with their nodes
	for p := range c.nodes {
		if c.nodes[p].silent {
			whys[p] = c.whySilent(Node(p))
		}
	}
	c.number++
	last := ""
	for p, why := range whys {
		if why != "" {
			out, last = c.remove(Node(p), why, out), why
		}
	}
	return c.endIfEmpty(last, out)
}

// judgeLinks fences nodes that have been without a link for too long.
func (c *Core) judgeLinks(out []Action) []Action {
	for p := range c.nodes {
		if m := &c.nodes[p]; m.linkless && c.now >= m.graceEnd {
			m.why = c.whyLinkless()
			out = c.begin(Node(p), fencing, out)
		}
	}
	return out
}

// judgeAccusations fences so many nodes that no accusation is left between two others. All that is accused has answered
// the front end, and so have the accusers: otherwise they would be silent, or lost.
func (c *Core) judgeAccusations(out []Action) []Action {
	if c.now < c.accusationsDue() {
		return out
	}
	left := append([]accusation(nil), c.accusations...)
	for len(left) > 0 {
		worst, worstBlame := Node(-1), blame{}
		for p := range c.nodes {
			if b := blameOf(Node(p), left); b.links > 0 && b.compare(worstBlame) >= 0 { // of equals the higher index
				worst, worstBlame = Node(p), b
			}
		}
		c.nodes[worst].why = c.whyBroken(worst, left)
		out = c.begin(worst, fencing, out)
		kept := left[:0]
		for _, a := range left {
			if a.by != worst && a.node != worst {
				kept = append(kept, a)
			}
		}
		left = kept
	}
	return out
}

// blame is what speaks against a node. A broken link speaks against both of its ends: a node that is cut off from all
// others has most of them, whoever was the first to say so.
type blame struct {
	links    int // broken ones, to different nodes
	accusers int
}

// compare compares two nodes' blame.
func (b blame) compare(o blame) int {
	return cmp.Or(cmp.Compare(b.links, o.links), cmp.Compare(b.accusers, o.accusers))
}

// blameOf returns what accusations say against p.
func blameOf(p Node, list []accusation) (b blame) {
	for i, a := range list {
		switch p {
		case a.node:
			b.accusers++
			if !isRepeated(list[:i], a) {
				b.links++
			}
		case a.by:
			if !isRepeated(list[:i], a) {
				b.links++
			}
		}
	}
	return b
}

// isRepeated reports whether the list has the link of a already.
func isRepeated(list []accusation, a accusation) bool {
	for _, b := range list {
		if b.by == a.node && b.node == a.by {
			return true
		}
	}
	return false
}
