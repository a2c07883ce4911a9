package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// countWords are what other tools call the number of PEs, and no option of a launcher.
var countWords = []string{"num-procs", "num-pes", "nproc", "nprocs", "procs", "npes", "pes", "processes", "ranks"}

// unknownOption refuses an option that no launcher has, and names the one that was
// probably meant.
func unknownOption(word string, flags *pflag.FlagSet) error {
	bare, _, _ := strings.Cut(word, "=")
	name := strings.TrimLeft(bare, "-")
	names := flagNames(flags)
	for i := range habits {
		names = append(names, strings.Fields(habits[i].names)...)
	}
	best := suggest(name, names)
	if slices.Contains(countWords, name) {
		best = "np"
	}
	const hint = "oshrun --help lists oshrun's flags, oshrun help mpirun the options of other launchers"
	return usagef(hint, "unknown option %s%s", visible(bare), didYouMean(best))
}

// commandFlagError says what is wrong with a flag of a command behind oshrun, and hints at that
// command's help: it has none of the flags that oshrun --help lists.
func commandFlagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, command := unknown.GetSpecifiedName(), strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return usagef(hint, "%s: unknown option %s%s%s", command, dashes, visible(name), didYouMean(suggest(name, flagNames(cmd.Flags()))))
	}
	return usagef(hint, "%w", flagError(err))
}

// didYouMean is the end of a message about an unknown option.
func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return ", did you mean --" + name + "?"
}

// flagNames returns the long names of flags.
func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// suggest returns the name that an unknown one was probably meant to be, or the empty
// string. Names of one letter are never meant. The first of these rules decides that
// has a name to offer:
//  1. the name that is one typing mistake away;
//  2. the shortest name that the word, of 3 letters or more, is the beginning of;
//  3. the shortest name that contains such a word between its dashes;
//  4. the name with the fewest typing mistakes;
//  5. the name that shares the longest beginning with the word: at least 4 letters, and
//     two thirds of the word.
func suggest(word string, names []string) string {
	near, distance := nearest(word, names)
	if distance == 1 || len(word) < 3 {
		return near
	}
	for _, fits := range []func(name string) bool{
		func(name string) bool { return strings.HasPrefix(name, word) },
		func(name string) bool { return strings.Contains("-"+name+"-", "-"+word+"-") },
	} {
		best := ""
		for _, name := range names {
			if fits(name) && (best == "" || len(name) < len(best)) {
				best = name
			}
		}
		if best != "" {
			return best
		}
	}
	if near != "" {
		return near
	}
	best, longest := "", max(4, (2*len(word)+2)/3)-1
	for _, name := range names {
		if n := sharedBeginning(word, name); n > longest {
			best, longest = name, n
		}
	}
	return best
}

// nearest returns the name with the fewest typing mistakes, and how many these are; the
// empty string if all names have too many.
func nearest(word string, names []string) (best string, distance int) {
	distance = len(word) + 1
	for _, name := range names {
		if d := editDistance(word, name); len(name) > 1 && d < distance && d <= mistakes(word, name) {
			best, distance = name, d
		}
	}
	return best, distance
}

// mistakes returns how many typing mistakes a word may have: one in three letters, and
// two in a word that has four at least and begins as it should.
func mistakes(word, name string) int {
	if len(word) >= 4 && word[0] == name[0] {
		return max(len(word)/3, 2)
	}
	return len(word) / 3
}

// sharedBeginning returns how many letters two words have in common at their beginnings.
func sharedBeginning(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// editDistance returns how many letters have to be put in, taken out, replaced, or
// swapped with their neighbors to make one word of the other (optimal string alignment).
func editDistance(a, b string) int {
	var before, last []int // rows of the two letters before, of one
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for k := range len(b) {
			replace := last[k]
			if a[i] != b[k] {
				replace++
			}
			row[k+1] = min(replace, last[k+1]+1, row[k]+1)
			if i > 0 && k > 0 && a[i] == b[k-1] && a[i-1] == b[k] {
				row[k+1] = min(row[k+1], before[k-1]+1)
			}
		}
	}
	return row[len(b)]
}
