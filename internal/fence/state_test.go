package fence

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/goshmem/goshmem/pmix/server"
)

// clone returns a core in the same state that shares nothing that changes.
func (f *Fences) clone() *Fences {
	c := &Fences{layout: f.layout, sets: map[server.FenceSet]*set{}, dead: maps.Clone(f.dead), unplaced: maps.Clone(f.unplaced)}
	for id, s := range f.sets {
		d := *s
		d.m, d.dead, d.acts = s.m.Clone(), maps.Clone(s.dead), nil
		d.calls, d.queue, d.bufs = slices.Clone(s.calls), slices.Clone(s.queue), map[bufferName][]byte{}
		for name, buf := range s.bufs {
			d.bufs[name] = slices.Clip(buf) // so that appending to one does not write into the other
		}
		c.sets[id] = &d
	}
	return c
}

// appendState appends all that the core's behavior depends on.
func (f *Fences) appendState(b []byte) []byte {
	for _, node := range slices.Sorted(maps.Keys(f.dead)) {
		b = append(b, 'd', byte(node))
	}
	for _, id := range slices.SortedFunc(maps.Keys(f.sets), compareSets) {
		s := f.sets[id]
		b = append(append(b, 's'), id.String()...)
		b = s.m.AppendState(b)
		for _, v := range slices.Sorted(maps.Keys(s.dead)) {
			b = append(b, 'D', byte(v))
		}
		for _, c := range s.calls {
			b = append(b, 'c', byte(c.seq), flag(c.spares), flag(c.expired))
		}
		for _, part := range s.queue {
			b = appendBytes(append(b, 'q'), part)
		}
		names := slices.SortedFunc(maps.Keys(s.bufs), func(x, y bufferName) int {
			if x.seq != y.seq {
				return compareSeqs(x.seq, y.seq)
			}
			return int(x.buf) - int(y.buf)
		})
		for _, name := range names {
			b = appendBytes(append(b, 'b', byte(name.seq), byte(name.buf)), s.bufs[name])
		}
		b = append(b, 'n', byte(s.handed), byte(s.entered), byte(s.returned))
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func appendBytes(b, s []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
