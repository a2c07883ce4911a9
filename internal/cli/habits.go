package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// habit is an option of mpirun, mpiexec.hydra or srun, and what oshrun makes of it.
type habit struct {
	names  string // without dashes, with spaces between
	of     string // the launchers that have it
	params int    // how many words follow, or optionalValue, or optionalReader
	here   string // oshrun's words for the option, or what oshrun does about it
	turn   turn   // makes oshrun's own words
}

// Options that may have a value.
const (
	optionalValue  = -1 // after = only
	optionalReader = -2 // after =, or as the next word if that names PEs: all, none, or numbers
)

// given is an option as it stands in a command line.
type given struct {
	name   string   // with its dashes
	values []string // as many as it has parameters; at most one if that is optional
}

// value returns the only value, or the empty string.
func (g *given) value() string {
	if len(g.values) == 0 {
		return ""
	}
	return g.values[0]
}

// turn turns an option of another launcher into words of oshrun's own.
type turn func(g *given) ([]string, error)

// as stands for options that are flags of oshrun by other names.
func as(words ...string) turn {
	return func(*given) ([]string, error) { return words, nil }
}

// valueOf stands for options whose value is that of a flag of oshrun.
func valueOf(flag string) turn {
	return func(g *given) ([]string, error) { return []string{flag + "=" + g.value()}, nil }
}

// ignore stands for options that change nothing of what a job does.
func ignore() turn { return as() }

// refuse stands for options that oshrun does not have: why, and what helps.
func refuse(why, hint string) turn {
	return func(g *given) ([]string, error) { return nil, usagef(hint, "%s: %s", g.name, why) }
}

// translate turns the options of one program's command line into oshrun's own
// flags: long options with one dash, and options of mpirun, mpiexec.hydra and srun.
// It stops at the program: the words behind it are the program's own. It depends on
// its arguments alone.
func translate(args []string, flags *pflag.FlagSet) (own []string, err error) {
	var unbuffered []int // places of raw output in own that another launcher's option asked for
	for len(args) > 0 {
		if a := args[0]; len(a) < 2 || a[0] != '-' || a == "--" {
			break
		}
		used, words, err := translateOne(args, flags)
		if err != nil {
			return nil, err
		}
		if len(words) == 1 && words[0] == rawOutput && !strings.HasPrefix(strings.TrimLeft(args[0], "-"), "output") {
			unbuffered = append(unbuffered, len(own))
		}
		own, args = append(own, words...), args[used:]
	}
	if hasLabels(own) {
		for _, at := range slices.Backward(unbuffered) {
			own = slices.Delete(own, at, at+1)
		}
	}
	return append(own, args...), nil
}

// rawOutput is what options for output without buffers are turned into.
const rawOutput = "--output=raw"

// hasLabels says whether flags of oshrun ask for a label before each line of output,
// which excludes raw output. An option for output without buffers then has no effect:
// oshrun holds back no line, and shows a line without an end after 0.1 s.
func hasLabels(own []string) bool {
	for i, word := range own {
		value, isOutput := strings.CutPrefix(word, "--output=")
		if word == "--output" && i+1 < len(own) {
			value, isOutput = own[i+1], true
		}
		for of := range strings.SplitSeq(value, ",") {
			if isOutput && (of == "timestamp" || of == "rank" || strings.HasPrefix(of, "tag")) {
				return true
			}
		}
	}
	return false
}

// translateOne turns the option at the beginning of args, and returns how many words of args it has.
func translateOne(args []string, flags *pflag.FlagSet) (used int, own []string, err error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	double := strings.HasPrefix(args[0], "--")
	switch name {
	case "h", "help", "usage":
		return 1, []string{"--help"}, nil
	case "V", "version":
		return 1, []string{"--version"}, nil
	}
	isHydras := name == "env" && isHydraEnv(args, value, hasValue)
	if flag := flags.Lookup(name); flag != nil && !isHydras && (double || len(name) > 1) {
		own = []string{args[0]}
		if !double {
			own[0] = "-" + args[0]
		}
		used, own, err = withValue(args, own, flag.NoOptDefVal == "" && !hasValue)
		if err == nil && (name == "bind-to" || name == "map-by") {
			own, err = placement(name, own)
		}
		return used, own, err
	}
	if !double {
		if own, waits, isOwn := shorthands(args[0], flags); isOwn {
			return withValue(args, own, waits)
		}
	}
	if h := findHabit(name); h != nil {
		g := &given{name: args[0][:len(args[0])-len(strings.TrimLeft(args[0], "-"))] + name}
		return h.read(g, args, value, hasValue)
	}
	if h := findHabit(name[:min(1, len(name))]); !double && h != nil && h.params != 0 && strings.Trim(name[1:], "0123456789:-") == "" { // -N2, -t1:30
		return h.read(&given{name: "-" + name[:1]}, args, args[0][2:], true)
	}
	return 0, nil, unknownOption(args[0], flags)
}

// withValue adds the word that is the value of a flag, if there is one to come.
func withValue(args, own []string, waits bool) (int, []string, error) {
	if !waits || len(args) == 1 { // pflag says what is missing
		return 1, own, nil
	}
	return 2, append(own, args[1]), nil
}

// placement turns a policy of mpirun's --bind-to or --map-by that oshrun has by another
// name, or that is empty: qualifiers alone leave the default policy. own is the flag.
func placement(name string, own []string) ([]string, error) {
	_, value, attached := strings.Cut(own[0], "=")
	if !attached && len(own) == 2 {
		value = own[1]
	}
	policy, qualifiers, qualified := strings.Cut(strings.ToLower(value), ":")
	switch {
	case name == "map-by" && policy == "" && qualified:
		return []string{"--map-by=slot" + value}, nil
	case name == "bind-to" && (policy == "cpu-list" || policy == "cpulist"):
		return nil, usagef("oshrun --cpu-set 0,1 --bind-to core ./program", "--bind-to: %q, want core: oshrun binds to the processors of --cpu-set, in their order", value)
	case name == "bind-to" && !qualified && (policy == "overload-allowed" || policy == "if-supported"):
		return nil, nil
	case name == "bind-to" && policy == "" && qualified:
		for q := range strings.SplitSeq(qualifiers, ":") {
			if q != "overload-allowed" && q != "if-supported" {
				return own, nil // and be refused
			}
		}
		return nil, nil // the default: PEs are not bound if there are more of them than cores
	}
	return own, nil
}

// shorthands says whether a word is made of oshrun's flags of one letter (-n 4, -n4,
// -vn 4), the last of which may take a value, and whether that is the next word.
func shorthands(word string, flags *pflag.FlagSet) (own []string, waits, isOwn bool) {
	letters := word[1:]
	for i := range letters {
		flag := flags.ShorthandLookup(letters[i : i+1])
		if flag == nil {
			return nil, false, false
		}
		if flag.NoOptDefVal != "" {
			continue
		}
		rest := letters[i+1:]
		if flag.Name == "np" && rest != "" && strings.Trim(rest, "=+-0123456789") != "" && rest[0] != '=' {
			return nil, false, false // a long option that begins with n
		}
		return []string{word}, rest == "", true
	}
	return []string{word}, false, true
}

// read turns the option given into oshrun's own words. Its values are in args unless one is attached.
func (h *habit) read(g *given, args []string, attached string, isAttached bool) (used int, own []string, err error) {
	if isAttached && h.params == 0 {
		return 0, nil, usagef("oshrun help mpirun", "%s=%s: the option has no value", g.name, visible(attached))
	}
	if g.values, used = h.values(args, attached, isAttached); len(g.values) < h.params {
		want := "a value"
		if h.params == 2 {
			want = "a name and a value"
		}
		return 0, nil, usagef("oshrun help mpirun", "%s: want %s behind it", g.name, want)
	}
	own, err = h.turn(g)
	return used, own, err
}

// values returns the values of an option and how many words it has with them. The
// name and value of a variable may be one word: -genv NAME=value.
func (h *habit) values(args []string, attached string, isAttached bool) (values []string, used int) {
	values, used = []string{attached}, 1
	if !isAttached {
		params := max(h.params, 0)
		if h.params == optionalReader && len(args) > 1 && namesReaders(args[1]) {
			params = 1
		}
		values = args[1 : 1+min(params, len(args)-1)]
		used += len(values)
	}
	if h.params < 2 || len(values) == 0 {
		return values, used
	}
	if name, value, both := strings.Cut(values[0], "="); both {
		return []string{name, value}, used - (len(values) - 1)
	}
	return values, used
}

// namesReaders says whether a word names PEs that read standard input, as hydra has it.
func namesReaders(word string) bool {
	return word == "all" || word == "none" || word != "" && strings.Trim(word, "0123456789,-") == ""
}

// findHabit returns the option of another launcher by a name, or nil.
func findHabit(name string) *habit {
	for i := range habits {
		if slices.Contains(strings.Fields(habits[i].names), name) {
			return &habits[i]
		}
	}
	return nil
}
