package graph500

import "math/bits"

const (
	maxScale = 31      // vertex numbers inside the structure are 32-bit
	maxPEs   = 1 << 15 // keeps the division by multiplication exact
)

// owners maps vertices to PEs: vertex v belongs to PE v mod P, as its local vertex v / P.
type owners struct {
	pes    uint64
	magic  uint64 // 2^48/pes rounded up: v*magic / 2^48 is v/pes for v < 2^32 and pes < 2^16
	nverts uint64
	nlocal int // local vertices of each PE, the same on all; the last one need not exist
}

// newOwners makes the map of nverts vertices.
func newOwners(nverts uint64, pes int) owners {
	p := uint64(pes)
	return owners{
		pes:    p,
		magic:  (1<<48 + p - 1) / p,
		nverts: nverts,
		nlocal: int((nverts + p - 1) / p),
	}
}

// split returns owner and local number of a vertex below 2^32. It multiplies, because P need not be a power of
// two, and a division would cost more than all else that is done with an edge.
func (o *owners) split(v uint64) (owner, local uint32) {
	q, _ := bits.Mul64(v<<16, o.magic)
	return uint32(v - q*o.pes), uint32(q)
}

// vertex returns the vertex with an owner and a local number.
func (o *owners) vertex(owner, local int) uint64 { return uint64(local)*o.pes + uint64(owner) }
