package plan

import (
	"slices"
	"testing"
)

// A further job fills the slots that are free, and then goes to the hosts in turn.
func TestUsedSlots(t *testing.T) {
	hosts := []Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 4}, {Name: "c", Slots: 1, MaxSlots: 1}}
	for _, x := range []struct {
		used []int
		pes  int
		by   By
		want []int // hosts by PE
	}{
		{nil, 3, BySlot, []int{0, 0, 1}},
		{[]int{1, 1, 1}, 3, BySlot, []int{0, 1, 1}},
		{[]int{2, 2, 1}, 5, BySlot, []int{0, 0, 1, 1, 1}},
		{[]int{3, 0, 0}, 2, ByNode, []int{1, 2}},
		{[]int{2, 4, 1}, 3, BySlot, []int{0, 0, 1}},
	} {
		j := &Job{Given: &Allocation{Hosts: hosts}, Used: x.used, By: x.by, Over: OverAllowed, Apps: []App{{PEs: x.pes}}}
		l, err := j.Lay()
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, at := range l.Homes {
			got = append(got, slices.IndexFunc(hosts, func(h Host) bool { return h.Name == l.Nodes[at].Host.Name }))
		}
		if slices.Sort(got); !slices.Equal(got, x.want) {
			t.Errorf("%d PEs beside %v: on %v, want %v", x.pes, x.used, got, x.want)
		}
	}
	j := &Job{Given: &Allocation{Hosts: hosts}, Used: []int{2, 4, 1}, Over: OverForbidden, Apps: []App{{PEs: 1}}}
	if l, err := j.Lay(); err == nil {
		t.Errorf("%+v, want an error: there is no free slot", l)
	}
}
