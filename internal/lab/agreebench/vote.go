package agreebench

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
)

// voteOf returns a PE's vote in a call. Its flags lack one bit, and its payload differs from that of any other PE and call.
// So the combination of votes shows whose votes are in it.
func voteOf(pe int, call uint64) (v agree.Vote) {
	v.Flags = ^(uint64(1) << (pe % 64))
	for i := range len(v.Payload) / 8 {
		binary.LittleEndian.PutUint64(v.Payload[8*i:], mix(uint64(pe)<<40+call<<2+uint64(i)))
	}
	return v
}

// mix spreads a number over 64 bits: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// expected returns the decision of a call of all PEs but dead. An allreduce lists no dead.
func expected(pes int, dead []int, call uint64, reduces bool) agree.Decision {
	d := agree.Decision{Seq: call, Outcome: agree.Decided, Vote: agree.Vote{Flags: ^uint64(0)}}
	for q := range pes {
		if slices.Contains(dead, q) {
			if !reduces {
				d.Failed = append(d.Failed, agree.Node(q))
			}
			continue
		}
		v := voteOf(q, call)
		d.Flags &= v.Flags
		agree.Sum(&d.Payload, &v.Payload)
	}
	return d
}

// appendDecision appends all of a decision.
func appendDecision(b []byte, d *agree.Decision) []byte {
	b = binary.LittleEndian.AppendUint64(b, d.Seq)
	b = append(b, byte(d.Outcome))
	return agree.AppendNodes(agree.AppendVote(b, &d.Vote), d.Failed)
}

// differs returns how a decision differs from the one that is expected, or "".
func differs(got, want *agree.Decision) string {
	switch {
	case got.Seq != want.Seq:
		return fmt.Sprintf("decision of call %d, want call %d", got.Seq, want.Seq)
	case got.Outcome != want.Outcome:
		return fmt.Sprintf("call %d: outcome %d, want %d", got.Seq, got.Outcome, want.Outcome)
	case !slices.Equal(got.Failed, want.Failed):
		return fmt.Sprintf("call %d: lists %v as dead, want %v", got.Seq, got.Failed, want.Failed)
	case got.Flags != want.Flags:
		return fmt.Sprintf("call %d: flags %#x, want %#x", got.Seq, got.Flags, want.Flags)
	case got.Payload != want.Payload:
		return fmt.Sprintf("call %d: payload %x, want %x", got.Seq, got.Payload, want.Payload)
	}
	return ""
}
