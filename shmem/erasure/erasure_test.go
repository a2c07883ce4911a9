package erasure

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goshmem/goshmem/internal/parity"
	"github.com/goshmem/goshmem/shmem"
)

// All data of a group come back, whichever members are lost, as long as they are no more than there are parities.
func TestRestoreAnyLoss(t *testing.T) {
	const stripe = 64
	for _, c := range []struct {
		size, parities int
		newCode        func(data, parities int) (shmem.Code, error)
	}{{2, 1, parity.XOR}, {3, 1, parity.XOR}, {7, 1, parity.XOR}, {2, 1, newCode}, {4, 1, newCode}, {4, 2, newCode}, {5, 2, newCode}, {6, 3, newCode}, {7, 6, newCode}} {
		t.Run(fmt.Sprintf("%d members with %d parities", c.size, c.parities), func(t *testing.T) {
			g, err := parity.New(c.size, c.parities, c.newCode)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, uint64(c.size)))
			rows := make([][][]byte, c.size)
			for r := range rows {
				holders := map[int]bool{}
				for part := range c.size {
					holders[g.Holder(r, part)] = true
					b := make([]byte, stripe)
					for i := range b {
						b[i] = byte(rng.Uint32())
					}
					rows[r] = append(rows[r], b)
				}
				if len(holders) != c.size {
					t.Fatalf("the parts of row %d are at members %v, want one at each of %d", r, holders, c.size)
				}
				if err := g.Encode(rows[r]); err != nil {
					t.Fatal(err)
				}
			}
			for lost := range 1 << c.size {
				testLoss(t, g, rows, uint(lost))
			}
		})
	}
}

// testLoss restores the data of all members in the set lost, if there are not too many.
func testLoss(t *testing.T, g *parity.Group, rows [][][]byte, lost uint) {
	t.Helper()
	n := 0
	for m := range g.Size {
		n += int(lost >> m & 1)
	}
	if n == 0 || n > g.Parities {
		return
	}
	for m := range g.Size {
		for stripe := range g.Data() {
			r := g.Row(m, stripe)
			if got := g.Holder(r, stripe); got != m {
				t.Fatalf("stripe %d of member %d is in row %d, which has that of member %d", stripe, m, r, got)
			}
			parts := make([][]byte, g.Size)
			for p := range parts {
				if lost>>g.Holder(r, p)&1 == 0 {
					parts[p] = rows[r][p]
				}
			}
			if lost>>m&1 == 0 {
				continue
			}
			parts[stripe] = make([]byte, 0, len(rows[r][stripe]))
			if err := g.Restore(parts, stripe); err != nil {
				t.Fatalf("lost %b: stripe %d of member %d: %v", lost, stripe, m, err)
			}
			if !bytes.Equal(parts[stripe], rows[r][stripe]) {
				t.Fatalf("lost %b: stripe %d of member %d is wrong", lost, stripe, m)
			}
		}
	}
	for m := range g.Size {
		for i := range g.Parities {
			if r := g.ParityRow(m, i); g.Holder(r, g.Data()+i) != m {
				t.Fatalf("parity %d of row %d is at member %d, want %d", i, r, g.Holder(r, g.Data()+i), m)
			}
		}
	}
}
