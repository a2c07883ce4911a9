package view

import (
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/detector/ring"
)

// named is the most nodes that a text names.
const named = 4

// name returns what users call p.
func (c *Core) name(p Node) string {
	if c.cfg.Name != nil {
		return c.cfg.Name(p)
	}
	return fmt.Sprintf("node%d", p)
}

// whyProven returns why a node is lost whose death is proven.
func whyProven(r ring.Reason) string {
	switch r {
	case ring.DaemonHung:
		return "the kernel of its machine answers, but its daemon hangs"
	case ring.Restarted:
		return "a later daemon answers in its place"
	}
	return "the kernel of its machine says that its daemon has ended"
}

// whyDead returns why a node is lost whose death is proven. While the node is being fenced, the fence is the cause of the
// death: its end may be noticed before it is confirmed.
func (c *Core) whyDead(p Node, r ring.Reason) string {
	if m := &c.nodes[p]; m.task == fencing && !m.deferred {
		return whyFenced(m)
	}
	return whyProven(r)
}

// whyFenced returns why a node is lost whose processes have been ended.
func whyFenced(m *member) string {
	if m.why == "" {
		return "its processes have been ended by another node"
	}
	return m.why
}

// whySilent returns why a silent node is lost.
func (c *Core) whySilent(p Node) string {
	m := &c.nodes[p]
	if m.unfenced {
		return m.why + "; it has not confirmed its end"
	}
	accusers := 0
	for _, a := range c.accusations {
		if a.node == p {
			accusers++
		}
	}
	if accusers == 0 {
		return "it does not answer the front end"
	}
	return fmt.Sprintf("it does not answer (asked by %s and the front end)", count(accusers, "node"))
}

// whyLinkless returns why a node is fenced that has no link to the front end.
func (c *Core) whyLinkless() string {
	return fmt.Sprintf("it answers, but its connection to the front end is not back after %g s", float64(c.cfg.Grace)/1e9)
}

// whyBroken returns why p is fenced, an end of links in the list.
func (c *Core) whyBroken(p Node, list []accusation) string {
	other, links := p, 0
	for i, a := range list {
		if a.by != p && a.node != p || isRepeated(list[:i], a) {
			continue
		}
		links++
		other = a.by + a.node - p
	}
	to := c.name(other)
	if links > 1 {
		to = count(links, "node")
	}
	return "the network between it and " + to + " is broken: it is the one that goes"
}

// whyEnd returns why the front end cannot go on.
func (c *Core) whyEnd(left, votes int) string {
	var names []string
	for p := range c.nodes {
		if c.nodes[p].silent {
			names = append(names, c.name(Node(p)))
		}
	}
	verb := "do"
	if len(names) == 1 {
		verb = "does"
	}
	return fmt.Sprintf("%s %s not answer; the front end and %s are %d of %d votes, which is no majority",
		join(names), verb, count(left-1, "other node"), left, votes)
}

// join returns a list of names for users, or the first of them.
func join(names []string) string {
	if len(names) > named {
		return strings.Join(names[:named], ", ") + fmt.Sprintf(" and %d more", len(names)-named)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// count returns a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
