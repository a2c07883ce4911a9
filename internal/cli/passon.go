package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// What --env takes.
const (
	envAll  = "all"
	envNone = "none"
)

var envWords = []string{envAll, envNone}

// basicVars are the variables of oshrun's environment that PEs have with --env none, too: programs find others, and the
// user's files, by them. Those of a job of Slurm begin with slurmVars, and srun --export=NONE keeps them as well.
var basicVars = []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER"}

const slurmVars = "SLURM_"

// passFlags are the flags about the environment that PEs have from oshrun.
type passFlags struct {
	pass    string   // of one program; empty: as passAll says
	passAll string   // of all programs
	xAll    []string // variables for all programs
}

func (f *passFlags) registerPass(fs *pflag.FlagSet) {
	fs.StringVar(&f.pass, "env", "", "`none`: PEs have no variables of this environment but those of -x and\n"+strings.Join(basicVars, ", ")+" and SLURM_*; all is the default")
	fs.StringVar(&f.passAll, "env-all", "", "")
	fs.StringArrayVar(&f.xAll, "x-all", nil, "")
}

// passedOn returns the variables of oshrun's environment that the PEs of a program have. All is what holds for all programs.
func (f *passFlags) passedOn(env []string, all string) ([]string, error) {
	pass := all
	if f.pass != "" {
		pass = f.pass
	}
	switch pass {
	case "", envAll:
		return env, nil
	case envNone:
		return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return !slices.Contains(basicVars, name) && !strings.HasPrefix(name, slurmVars)
		}), nil
	}
	return nil, usagef("--env none -x NAME", "--env: %q, want %s", pass, strings.Join(envWords, " or "))
}

// isHydraEnv says whether --env at the beginning of args is hydra's option, which has a name and a value.
func isHydraEnv(args []string, value string, attached bool) bool {
	if !attached && len(args) > 1 {
		value = args[1]
	}
	if attached && !strings.Contains(value, "=") {
		return false
	}
	return value != "" && !slices.Contains(envWords, value)
}

// onlyListed stands for hydra's lists of the variables that PEs have.
func onlyListed(none, flag string) turn {
	return func(g *given) ([]string, error) {
		own := []string{none}
		for name := range strings.SplitSeq(g.value(), ",") {
			if name == "" || strings.Contains(name, "=") {
				return nil, usagef("oshrun --env none -x A -x B ./program", "%s: %q, want names of variables with commas between", g.name, g.value())
			}
			own = append(own, flag+"="+name)
		}
		return own, nil
	}
}

// export reads srun's list: ALL, NONE or NIL, and variables. A list without ALL has no others.
func export(g *given) (own []string, err error) {
	passesAll := false
	for word := range strings.SplitSeq(g.value(), ",") {
		switch strings.ToUpper(word) {
		case "ALL":
			passesAll = true
		case "NONE", "NIL":
		case "":
			return nil, usagef("oshrun --env none -x NAME=value", "%s: %q, want ALL, NONE, or variables such as NAME=value, with commas between", g.name, g.value())
		default:
			own = append(own, "--x="+word)
		}
	}
	if passesAll {
		return slices.DeleteFunc(own, func(word string) bool { return strings.Count(word, "=") == 1 }), nil // --x=NAME is passed on anyway
	}
	return append([]string{"--env=" + envNone}, own...), nil
}

// lookVar returns a variable with the value that it has here, for -x NAME.
func lookVar(name string) (kv string, err error) {
	value, isSet := os.LookupEnv(name)
	if !isSet {
		return "", usagef("-x "+name+"=value", "-x: %s is not set in this environment", name)
	}
	return name + "=" + value, nil
}
