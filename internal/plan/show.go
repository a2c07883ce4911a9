package plan

import (
	"fmt"
	"strings"
)

// countHosts returns "1 host", "2 hosts".
func countHosts(n int) string { return plural(n, "host") }

// plural returns a number with a word that takes an s.
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Names names the hosts that have PEs, if there are many only the first ones.
func (l *Layout) Names() string {
	var names []string
	for i := range l.Nodes {
		names = append(names, l.Nodes[i].Host.Name)
	}
	return Few(names, ", ")
}

// AllocationText lists the hosts that the job may use.
func (l *Layout) AllocationText() string {
	var b strings.Builder
	a := &l.Allocation
	fmt.Fprintf(&b, "allocation: %s of %s, %s\n", countHosts(len(a.Hosts)), a.From, plural(a.Slots(), "slot"))
	for i := range a.Hosts {
		h := &a.Hosts[i]
		fmt.Fprintf(&b, "%s: %s", h.Name, plural(h.Slots, "slot"))
		if h.Assumed {
			b.WriteString(", as many as this machine has processors")
		}
		if h.MaxSlots > 0 {
			fmt.Fprintf(&b, ", at most %s", plural(h.MaxSlots, "PE"))
		}
		if h.User != "" {
			fmt.Fprintf(&b, ", user %s", h.User)
		}
		if h.Port != 0 {
			fmt.Fprintf(&b, ", port %d", h.Port)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// MapText lists the PEs of each node. Programs has the names of the job's programs.
func (l *Layout) MapText(programs []string) string {
	var b strings.Builder
	kind := "consecutive on each"
	if !l.Block {
		kind = "not consecutive on each"
	}
	fmt.Fprintf(&b, "map: %s on %s, %s\n", plural(len(l.Homes), "PE"), countHosts(len(l.Nodes)), kind)
	ends := make([]int, len(l.Counts)) // by program: the PE behind its last
	end := 0
	for i, n := range l.Counts {
		end += n
		ends[i] = end
	}
	for i := range l.Nodes {
		n := &l.Nodes[i]
		var parts []string
		pes := n.PEs
		for program, end := range ends {
			k := 0
			for k < len(pes) && pes[k] < end {
				k++
			}
			if k > 0 {
				parts = append(parts, fmt.Sprintf("%s %s, program %s", strings.Fields(plural(k, "PE"))[1], FormatList(pes[:k]), programs[program]))
			}
			pes = pes[k:]
		}
		fmt.Fprintf(&b, "%s: %s\n", n.Host.Name, strings.Join(parts, "; "))
	}
	return b.String()
}
