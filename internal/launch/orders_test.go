package launch

import (
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
)

// A sentence on PEs at one place lists each PE once if all wait for the same PE.
func TestPlaceSentence(t *testing.T) {
	in := placeOf(&daemon.Answer{Done: true}, "is in f", nil)
	for _, c := range []struct {
		w    place
		a    awaiting
		want string
	}{
		{in, awaiting{pes: []int{3}}, "PE 3 is in f"},
		{in, awaiting{pes: []int{2, 0}}, "PEs 0, 2 are in f"},
		{in, awaiting{[]int{3}, map[int][]int{4: {3}}}, "PE 3 is in f, and waits for PE 4"},
		{in, awaiting{[]int{0, 2}, map[int][]int{4: {2, 0}}}, "PEs 0, 2 are in f, and wait for PE 4"},
		{in, awaiting{[]int{0, 2}, map[int][]int{4: {2}}}, "PEs 0, 2 are in f: PE 2 waits for PE 4"},
		{in, awaiting{[]int{0, 1, 2}, map[int][]int{4: {2}, 3: {1, 0}}}, "PEs 0-2 are in f: PEs 0-1 wait for PE 3, PE 2 waits for PE 4"},
		{placeOf(&daemon.Answer{Asked: true, Ended: true, Left: true}, "", nil), awaiting{pes: []int{1}}, "PE 1 has ended meanwhile"},
		{placeOf(&daemon.Answer{Asked: true, Left: true}, "", nil), awaiting{pes: []int{1}}, "PE 1 has left the job (Finalize) and still runs"},
		{placeOf(&daemon.Answer{Asked: true}, "", nil), awaiting{pes: []int{0, 1}}, "PEs 0-1 have closed their connections without Finalize and still run"},
		{placeOf(&daemon.Answer{}, "", func() bool { return true }), awaiting{pes: []int{0, 1}}, "PEs 0-1 have not joined the job"},
	} {
		if have := c.w.sentence(&c.a); have != c.want {
			t.Errorf("got %q, want %q", have, c.want)
		}
	}
}
