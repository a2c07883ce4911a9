package plan

import (
	"fmt"
	"slices"
	"strings"
)

// MapBy is what --map-by says: where on its node a PE goes, and which node that is.
type MapBy struct {
	Map     Map
	By      By
	PerUnit int  // ppr:N:unit: PEs on each unit; 0: not said
	Unit    Bind // the unit: BindNone stands for the node
	Over    Over
	Span    bool // PEs are to be spread as if all hosts were one
}

// nodeWords are the words of ParseMapBy beyond those of ParseMap.
var nodeWords = []string{"node", "seq"}

// MapByWords are the words that ParseMapBy takes, without ppr and qualifiers.
func MapByWords() []string { return append(MapWords(), nodeWords...) }

// ParseMapBy reads a word of MapWords, node, seq or ppr:N:unit, perhaps with qualifiers of Open MPI
// behind colons. Case does not matter.
func ParseMapBy(s string) (m MapBy, err error) {
	word, qualifiers, _ := strings.Cut(strings.ToLower(s), ":")
	rest := strings.FieldsFunc(qualifiers, func(r rune) bool { return r == ':' || r == ',' })
	switch word {
	case "node":
		m.By = ByNode
	case "seq":
		m.By = BySeq
	case "ppr":
		if m.PerUnit, m.Unit, err = parsePPR(s, rest); err != nil {
			return m, err
		}
		m.Map = mapOf(m.Unit)
		rest = rest[2:]
	default:
		if m.Map, err = ParseMap(word); err != nil {
			words := MapByWords()
			return m, &UnknownError{Text: fmt.Sprintf("%q, want %s", s, orList(append(words, "ppr:N:node"))), Word: word, Known: words}
		}
	}
	for _, q := range rest {
		switch q {
		case "oversubscribe":
			m.Over = OverAllowed
		case "nooversubscribe":
			m.Over = OverForbidden
		case "span":
			m.Span = true
		case "pe=1", "1": // as without it
		default:
			return m, &UnknownError{
				Text: fmt.Sprintf("%q: qualifier %q, want oversubscribe or nooversubscribe", s, q),
				Word: q, Known: []string{"oversubscribe", "nooversubscribe"},
			}
		}
	}
	return m, nil
}

// parsePPR reads N and the unit of ppr:N:unit.
func parsePPR(s string, rest []string) (n int, unit Bind, err error) {
	bad := fmt.Errorf("%q, want ppr:N:node, or ppr:N:socket, numa or l3cache, or ppr:1:core or hwthread", s)
	if len(rest) < 2 {
		return 0, 0, bad
	}
	if n, err = parseNumber(rest[0], maxPEs); err != nil || n < 1 {
		return 0, 0, bad
	}
	if rest[1] == "node" {
		return n, BindNone, nil
	}
	i := index(bindNames, rest[1])
	if unit = Bind(max(i, 0)); unit <= BindNone || n > 1 && (unit == BindCore || unit == BindHWThread) {
		return 0, 0, bad
	}
	return n, unit, nil
}

// mapOf returns the mapping of ppr:N:unit: cores and hardware threads one by one, in larger
// units neighbors together.
func mapOf(unit Bind) Map {
	switch unit {
	case BindCore:
		return MapCore
	case BindHWThread:
		return MapHWThread
	}
	return MapDefault
}

// Units returns how many units of a kind may be used: cores, or the sockets of these.
func (t Topology) Units(unit Bind) int {
	cores := usable(t.cores())
	switch unit {
	case BindCore:
		return len(cores)
	case BindHWThread:
		return len(t.Allowed())
	case BindSocket, BindNUMA, BindL3:
		key, _ := keyOf(unit)
		return len(split(cores, key))
	}
	return 1
}

// rankHosts are the words of ParseRank that say in which order hosts get PEs.
var rankHosts = []string{"slot", "node"}

// rankFill is the word of ParseRank for the order of cores.
const rankFill = "fill"

// RankWords are the words that ParseRank takes.
func RankWords() []string { return slices.Concat(rankHosts, []string{rankFill}, bindNames[BindCore:]) }

// ParseRank reads --rank-by: how PEs are numbered over hosts, and by which unit on each of them, see Request.Rank.
func ParseRank(s string) (Rank, Bind, error) {
	word := strings.ToLower(s)
	if i := slices.Index(rankHosts, word); i >= 0 {
		return RankSlot + Rank(i), BindDefault, nil
	}
	if word == rankFill {
		return RankSlot, BindNone, nil
	}
	if i := index(bindNames, word); i > int(BindNone) {
		return RankSlot, Bind(i), nil
	}
	words := RankWords()
	if word == "span" {
		return 0, 0, &UnknownError{Text: fmt.Sprintf("%q, want %s: hosts and their units are not taken for one machine", s, orList(words)), Word: word, Known: words}
	}
	return 0, 0, &UnknownError{Text: fmt.Sprintf("%q, want %s", s, orList(words)), Word: word, Known: words}
}
