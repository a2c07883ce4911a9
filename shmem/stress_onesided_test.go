package shmem_test

import (
	"slices"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	stressSteps = append(stressSteps, (*stress).putsAndGets, (*stress).putsAndGets, (*stress).atomics, (*stress).ownWords, (*stress).signalMembers)
}

// putsAndGets has each member of a team put to and get from random members. Each PE writes to its
// own part of every PE's object, and reads an object that no PE writes.
func (s *stress) putsAndGets() {
	s.t.Helper()
	tm := s.pickTeam()
	to, from := &s.puts[s.turn], &s.puts[1-s.turn]
	s.note("move in team %v", tm.members)
	for i, pe := range tm.members {
		for range s.rng.IntN(6) {
			j := s.rng.IntN(len(tm.members))
			first := s.rng.IntN(stressRoom)
			n := 1 + s.rng.IntN(stressRoom-first)
			if s.rng.IntN(3) == 0 {
				n = 1
			}
			if s.rng.IntN(2) == 0 {
				s.get(tm, from, i == tm.me, j, s.rng.IntN(s.n)*stressRoom+first, n)
			} else {
				s.put(tm, to, i == tm.me, j, pe*stressRoom+first, n)
			}
			if i == tm.me {
				s.linger()
			}
		}
	}
}

// put writes n elements on member j in a random way. mine says that this PE is the writer.
func (s *stress) put(tm *stressTeam, m *modeled, mine bool, j, first, n int) {
	s.t.Helper()
	src := make([]uint64, n)
	for i := range src {
		src[i] = s.value()
	}
	model, x, way, stride := m.model[tm.members[j]][first:first+n], m.x.Slice(first, first+n), s.rng.IntN(5), 1+s.rng.IntN(4)
	block, count := 1, (n-1)/stride+1
	if way == 4 {
		block = 1 + s.rng.IntN(stride)
		count = (n-block)/stride + 1
		if n < block {
			count = 0
		}
	}
	var err error
	switch way {
	case 0:
		copy(model, src)
		if mine {
			err = shmem.Put(tm.ctx, x, src, j)
		}
	case 1:
		copy(model, src)
		if mine {
			err = shmem.PutNBI(tm.ctx, x, src, j)
		}
	case 2:
		model[0] = src[0]
		if mine {
			err = shmem.P(tm.ctx, x, src[0], j)
		}
	default:
		for k := range count {
			copy(model[k*stride:], src[k*block:(k+1)*block])
		}
		switch {
		case !mine:
		case way == 3:
			err = shmem.IPut(tm.ctx, x, src, shmem.Stride{Dst: stride, Src: 1, N: count}, j)
		default:
			err = shmem.IBPut(tm.ctx, x, src, shmem.Stride{Dst: stride, Src: block, Block: block, N: count}, j)
		}
	}
	s.ok(err)
}

// get reads n elements from member j in a random way and compares them.
func (s *stress) get(tm *stressTeam, m *modeled, mine bool, j, first, n int) {
	s.t.Helper()
	model, x, way, stride := m.model[tm.members[j]][first:first+n], m.x.Slice(first, first+n), s.rng.IntN(5), 1+s.rng.IntN(4)
	if !mine {
		return
	}
	dst := make([]uint64, n)
	want := slices.Clone(model)
	var err error
	switch way {
	case 0:
		err = shmem.Get(tm.ctx, dst, x, j)
	case 1:
		var p shmem.Pending[[]uint64]
		if p, err = shmem.GetNBI(tm.ctx, dst, x, j); err == nil {
			dst, err = p.Wait()
		}
	case 2:
		dst, want = dst[:1], want[:1]
		dst[0], err = shmem.G(tm.ctx, x, j)
	default:
		count := (n-1)/stride + 1
		dst, want = dst[:count], want[:count]
		for k := range want {
			want[k] = model[k*stride]
		}
		if way == 3 {
			err = shmem.IGet(tm.ctx, dst, x, shmem.Stride{Dst: 1, Src: stride, N: count}, j)
		} else {
			err = shmem.IBGet(tm.ctx, dst, x, shmem.Stride{Dst: 1, Src: stride, Block: 1, N: count}, j)
		}
	}
	s.ok(err)
	if !slices.Equal(dst, want) {
		s.fatalf("get, way %d, of %d from %d of PE %d returned %#x, want %#x", way, n, first, tm.members[j], dst, want)
	}
}

// atomics has all members change the same words with the same operator, in any order.
func (s *stress) atomics() {
	s.t.Helper()
	tm := s.pickTeam()
	kind := s.rng.IntN(4)
	s.note("atomics of kind %d in team %v", kind, tm.members)
	for i := range tm.members {
		for range s.rng.IntN(20) {
			j, at, v, way := s.rng.IntN(len(tm.members)), s.rng.IntN(stressWords), s.rng.Uint64(), s.rng.IntN(4)
			word := &s.words.model[tm.members[j]][at]
			if kind == 0 && way > 1 {
				v = 1
			}
			switch kind {
			case 0:
				*word += v
			case 1:
				*word |= v
			case 2:
				*word &= v
			case 3:
				*word ^= v
			}
			if i == tm.me {
				s.ok(updateWord(tm.ctx, s.words.x.At(at), v, kind, way, j))
			}
		}
	}
}

// updateWord makes one atomic update of a kind, fetching or not.
func updateWord(c *shmem.Ctx, x shmem.Sym[uint64], v uint64, kind, way, pe int) error {
	switch kind*4 + way {
	case 0:
		return shmem.AtomicAdd(c, x, v, pe)
	case 1:
		return errOf(shmem.AtomicFetchAdd(c, x, v, pe))
	case 2:
		return shmem.AtomicInc(c, x, pe)
	case 3:
		return errOf(shmem.AtomicFetchInc(c, x, pe))
	case 4, 5:
		return shmem.AtomicOr(c, x, v, pe)
	case 6:
		return errOf(shmem.AtomicFetchOr(c, x, v, pe))
	case 7:
		return errOf(shmem.AtomicFetchOrNBI(c, x, v, pe))
	case 8, 9:
		return shmem.AtomicAnd(c, x, v, pe)
	case 10:
		return errOf(shmem.AtomicFetchAnd(c, x, v, pe))
	case 11:
		return errOf(shmem.AtomicFetchAndNBI(c, x, v, pe))
	case 12, 13:
		return shmem.AtomicXor(c, x, v, pe)
	case 14:
		return errOf(shmem.AtomicFetchXor(c, x, v, pe))
	default:
		return errOf(shmem.AtomicFetchXorNBI(c, x, v, pe))
	}
}

// ownWords has each member change its own word on other members, so it knows what it fetches.
func (s *stress) ownWords() {
	s.t.Helper()
	tm := s.pickTeam()
	s.note("atomics on owned words in team %v", tm.members)
	for i, pe := range tm.members {
		for range s.rng.IntN(12) {
			j, v, way := s.rng.IntN(len(tm.members)), s.rng.Uint64(), s.rng.IntN(8)
			word := &s.words.model[tm.members[j]][stressWords+pe]
			old := *word
			if way != 0 && way != 5 {
				*word = v
			}
			if i != tm.me {
				continue
			}
			got, err := replaceWord(tm.ctx, s.words.x.At(stressWords+pe), old, v, way, j)
			s.ok(err)
			if got != old {
				s.fatalf("way %d: fetched %#x, want %#x", way, got, old)
			}
		}
	}
}

// replaceWord replaces the value of a word, or only reads it, and returns the old value.
func replaceWord(c *shmem.Ctx, x shmem.Sym[uint64], old, v uint64, way, pe int) (uint64, error) {
	var p shmem.Pending[uint64]
	var err error
	switch way {
	case 0:
		return shmem.AtomicFetch(c, x, pe)
	case 1:
		return shmem.AtomicSwap(c, x, v, pe)
	case 2:
		return shmem.AtomicCompareSwap(c, x, old, v, pe)
	case 3:
		return old, shmem.AtomicSet(c, x, v, pe)
	case 4:
		return shmem.AtomicFetchAdd(c, x, v-old, pe)
	case 5:
		p, err = shmem.AtomicFetchNBI(c, x, pe)
	case 6:
		p, err = shmem.AtomicSwapNBI(c, x, v, pe)
	default:
		p, err = shmem.AtomicCompareSwapNBI(c, x, old, v, pe)
	}
	if err != nil {
		return 0, err
	}
	return p.Wait()
}

// signalMembers has each member signal another one, by a signal after a put or by a counter. Each
// member waits for all its signals.
func (s *stress) signalMembers() {
	s.t.Helper()
	tm := s.pickTeam()
	s.note("tell in team %v", tm.members)
	to := &s.puts[s.turn]
	var heard []int // the members that signal this PE
	for i, pe := range tm.members {
		j, way, v := s.rng.IntN(len(tm.members)), s.rng.IntN(4), s.value()
		at := pe*stressRoom + s.rng.IntN(stressRoom)
		target := tm.members[j]
		s.flags.model[target][pe]++
		to.model[target][at] = v
		if target == s.me {
			heard = append(heard, pe)
		}
		if i == tm.me {
			s.linger()
			s.ok(signalBy(tm.ctx, to.x.At(at), v, s.flags.x.At(pe), way, j))
		}
	}
	if how := s.rng.IntN(stressWaits); tm.me >= 0 {
		s.awaitSignals(tm.ctx, heard, how)
	}
}

// signalBy puts a value and then counts up the flag, in one of four ways.
func signalBy(c *shmem.Ctx, x shmem.Sym[uint64], v uint64, flag shmem.Sym[uint64], way, pe int) error {
	switch way {
	case 0:
		return shmem.PutSignal(c, x, []uint64{v}, flag, 1, shmem.SignalAdd, pe)
	case 1:
		return shmem.PutSignalNBI(c, x, []uint64{v}, flag, 1, shmem.SignalAdd, pe)
	}
	if err := shmem.P(c, x, v, pe); err != nil {
		return err
	}
	if err := c.Fence(); err != nil {
		return err
	}
	if way == 2 {
		return c.SignalAdd(flag, 1, pe)
	}
	return shmem.AtomicInc(c, flag, pe)
}
