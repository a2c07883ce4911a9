package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	bindNames = []string{
		BindDefault: "default", BindNone: "none", BindCore: "core", BindNUMA: "numa", BindSocket: "socket", BindHWThread: "hwthread", BindL3: "l3cache",
	}
	mapNames = []string{
		MapDefault: "default", MapCore: "core", MapSlot: "slot", MapNUMA: "numa", MapSocket: "socket", MapHWThread: "hwthread", MapL3: "l3cache",
	}
	// otherNames are words of other launchers, and the words here that mean the same.
	otherNames = map[string]string{"package": "socket", "l3": "l3cache", "machine": "none", "node": "slot"}
)

// BindWords are the words that ParseBind takes, without qualifiers.
func BindWords() []string { return slices.Clone(bindNames[BindNone:]) }

// MapWords are the words that ParseMap takes.
func MapWords() []string { return slices.Clone(mapNames[MapCore:]) }

// String returns the word of --bind-to.
func (b Bind) String() string { return name(bindNames, int(b)) }

// String returns the word of --map-by.
func (m Map) String() string { return name(mapNames, int(m)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// The qualifiers of a binding.
const (
	overload    = "overload-allowed" // several PEs may have a core
	ifSupported = "if-supported"     // PEs are not bound where that is not possible
)

// ParseBind reads a word of BindWords, perhaps followed by :overload-allowed or
// :if-supported. The latter changes nothing, because any Linux can bind.
func ParseBind(s string) (b Bind, over bool, err error) {
	word, qualifiers, qualified := strings.Cut(s, ":")
	i := index(bindNames, word)
	bad := i <= int(BindDefault)
	for q := range strings.SplitSeq(qualifiers, ":") {
		over = over || q == overload
		bad = bad || qualified && (q != overload && q != ifSupported || Bind(i) == BindNone)
	}
	if bad {
		return 0, false, fmt.Errorf("%q, want %s, or core:%s", s, orList(BindWords()), overload)
	}
	return Bind(i), over, nil
}

// ParseMap reads a word of MapWords.
func ParseMap(s string) (Map, error) {
	i := index(mapNames, s)
	if i <= int(MapDefault) {
		return 0, fmt.Errorf("%q, want %s", s, orList(MapWords()))
	}
	return Map(i), nil
}

// index returns the place of a word, or of the word that means the same; -1 if there is none.
func index(names []string, word string) int {
	if other := otherNames[word]; slices.Contains(names, other) {
		word = other
	}
	return slices.Index(names, word)
}

func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Draw returns a picture of the node with the processors of a place. Each socket is a
// pair of brackets, with slashes between its cores, and a sign for each thread of a core:
//
//   - B: the place has the thread;
//   - a dot: the place does not have the thread;
//   - ~: the job may not use the thread.
func (t Topology) Draw(p *Place) string {
	var b strings.Builder
	all := t.cores()
	for i, c := range all {
		switch {
		case i == 0:
			b.WriteString("[")
		case all[i-1].pkg != c.pkg:
			b.WriteString("][")
		default:
			b.WriteString("/")
		}
		for _, id := range c.ids {
			switch {
			case slices.Contains(p.CPUs, id):
				b.WriteString("B")
			case slices.Contains(c.may, id):
				b.WriteString(".")
			default:
				b.WriteString("~")
			}
		}
	}
	return b.String() + "]"
}

// Report says in a line where a PE runs: what it is bound to, and a picture.
func (t Topology) Report(pe int, p *Place) string {
	if p.CPUs == nil {
		return fmt.Sprintf("PE %d is not bound: %s", pe, t.Draw(p))
	}
	return fmt.Sprintf("PE %d bound to %s: %s", pe, p.Unit, t.Draw(p))
}

// maxCPU bounds the numbers that ParseList reads: a mistake should not take memory without bound.
const maxCPU = 1 << 16

// ParseList reads a list of processors as the kernel writes it: 0-3,8,10-11.
func ParseList(s string) (ids []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		if part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || lo < 0 || hi < lo || hi >= maxCPU {
			return nil, fmt.Errorf("list of processors %q: %q, want a number below %d or a range of them", s, part, maxCPU)
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// FormatList is the inverse of ParseList.
func FormatList(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		k := i
		for k+1 < len(ids) && ids[k+1] == ids[k]+1 {
			k++
		}
		part := strconv.Itoa(ids[i])
		if k > i {
			part += "-" + strconv.Itoa(ids[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ",")
}
