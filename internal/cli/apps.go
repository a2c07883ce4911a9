package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/nodes"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// partSeparator is the word between the programs of a job.
const partSeparator = ":"

const exampleProgram = "oshrun -n 4 graph500 --scale 16"

// partFlags are the flags that each part of a job has for itself.
var partFlags = []string{"np", "x", "wdir", "host", "hostfile", "per-node", "ppn", "nodes", "only-here", "env"}

// part is what one program of a job has in the command line.
type part struct {
	flags   *runFlags
	counted bool // -n is given
	words   []string
}

// apps turns what follows the flags of the first part into the programs of the
// job: args is "program args [: flags program args]...". The layout is nil if no hosts are given.
func (f *runFlags) apps(args []string, flags *pflag.FlagSet, stderr io.Writer) (apps []launch.App, layout *plan.Layout, err error) {
	parts, err := f.parts(args, flags)
	if err != nil {
		return nil, nil, err
	}
	if layout, err = f.layOut(parts, newIsHere()); err != nil {
		return nil, nil, err
	}
	for i := range parts {
		if i > 0 {
			f.onlyHere = append(f.onlyHere, parts[i].flags.onlyHere...)
		}
		env, err := parts[i].flags.passedOn(f.inherited(layout), f.passAll)
		if err != nil {
			return nil, nil, inPart(i, err)
		}
		app, err := parts[i].flags.app(parts[i].words, env, f.xAll, stderr)
		if err == nil && (layout.IsHere() || f.emulate != "") { // other hosts have directories of their own
			err = parts[i].flags.checkDir()
		}
		if err != nil {
			return nil, nil, inPart(i, err)
		}
		apps = append(apps, app)
	}
	return apps, layout, nil
}

// parts cuts the command line into those of the programs, and reads their flags.
func (f *runFlags) parts(args []string, flags *pflag.FlagSet) (parts []part, err error) {
	all := splitParts(args)
	for i, words := range all {
		of := f
		if i > 0 {
			if of, flags, words, err = parsePart(words); err != nil {
				return nil, inPart(i, err)
			}
		}
		if len(all) > 1 && !flags.Changed("np") {
			return nil, inPart(i, usagef("oshrun -n 2 ./a : -n 3 ./b", "-n is not given, want a number of PEs for each program"))
		}
		if flags.Changed("np") && of.n < 1 {
			return nil, inPart(i, usagef("oshrun -n 4 program", "-n: number of PEs %d, want %s", of.n, launch.WantPEs()))
		}
		parts = append(parts, part{flags: of, counted: flags.Changed("np"), words: words})
	}
	return parts, nil
}

// splitParts cuts a command line at the separators.
func splitParts(args []string) (parts [][]string) {
	for {
		i := slices.Index(args, partSeparator)
		if i < 0 {
			return append(parts, args)
		}
		parts, args = append(parts, args[:i]), args[i+1:]
	}
}

// inPart names the part of the command line that has an error, unless it is the first part.
func inPart(i int, err error) error {
	if i == 0 {
		return err
	}
	hint := ""
	if u := (*usageError)(nil); errors.As(err, &u) {
		hint = u.hint
	}
	return usagef(hint, "program %d of the job: %w", i+1, err)
}

// parsePart reads the flags of a part after the first and returns the rest.
func parsePart(args []string) (*runFlags, *pflag.FlagSet, []string, error) {
	var f runFlags
	fs := pflag.NewFlagSet("oshrun", pflag.ContinueOnError)
	fs.SetInterspersed(false)
	fs.Usage = func() {}
	f.register(fs)
	args, err := translate(args, fs)
	if err != nil {
		return nil, nil, nil, err
	}
	err = fs.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		err = usagef("oshrun --help", "--help is not for one program")
	} else if err != nil {
		err = flagError(err)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	fs.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(partFlags, flag.Name) {
			err = usagef("oshrun --"+flag.Name+" ... -n 2 ./a : -n 3 ./b", "--%s is for the whole job, want it before the first program", flag.Name)
		}
	})
	if err == nil {
		err = noneEmpty(fs)
	}
	return &f, fs, fs.Args(), err
}

// inherited returns the environment that PEs have without -x: that of oshrun, without what describes its own machine if
// PEs run on others.
func (f *runFlags) inherited(layout *plan.Layout) []string {
	if layout.IsHere() || f.emulate != "" {
		return os.Environ()
	}
	return nodes.Exported(os.Environ())
}

// app turns the flags and words of one part into a program of the job. Its PEs have env, more, and what the flags set.
func (f *runFlags) app(words, env, more []string, stderr io.Writer) (launch.App, error) {
	switch {
	case len(words) == 0:
		return launch.App{}, usagef(exampleProgram, "no program given")
	case words[0] == "":
		return launch.App{}, usagef(exampleProgram, `program: "", want a built-in program, one in PATH, or a file`)
	case f.stats == statsAlone && (words[0] == statsAlone || strings.HasPrefix(words[0], "json:")):
		return launch.App{}, usagef("--stats="+words[0], "--stats: its value stands after =: use --stats=%s", words[0])
	}
	app := launch.App{NPEs: f.n, Program: words[0], Args: words[1:], Dir: f.dir, Env: env}
	if builtins[app.Program] != nil {
		self, err := os.Executable()
		if err != nil {
			return launch.App{}, fmt.Errorf("built-in program %s: %w", app.Program, err)
		}
		app.Args = append([]string{"pe", app.Program}, app.Args...)
		app.Program, app.Name = self, "oshrun"
		app.Env = append(app.Env, progressKind(stderr)...)
	}
	for _, kv := range slices.Concat(more, f.env) {
		if err := addVar(&app, kv); err != nil {
			return launch.App{}, err
		}
	}
	return app, nil
}

// isBuiltin says whether app has made the program from the name of a built-in one.
func isBuiltin(a launch.App, name string) bool {
	self, err := os.Executable()
	return err == nil && a.Program == self && len(a.Args) > 1 && a.Args[0] == "pe" && a.Args[1] == name
}

// checkDir refuses --wdir without such a directory.
func (f *runFlags) checkDir() error {
	if f.dir == "" {
		return nil
	}
	if st, err := os.Stat(f.dir); err != nil || !st.IsDir() {
		return usagef("", "--wdir: %q, want a directory", f.dir)
	}
	return nil
}

// progressKind tells a built-in program how to show progress: its own stderr is
// a pipe, so it cannot see for itself.
func progressKind(stderr io.Writer) []string {
	if _, set := os.LookupEnv(envvar.Progress); set {
		return nil
	}
	kind := "lines"
	if f, ok := stderr.(*os.File); ok && xunix.IsTerminal(f.Fd()) {
		kind = "bar"
	}
	return []string{envvar.Progress + "=" + kind}
}

// addVar applies -x.
func addVar(app *launch.App, kv string) error {
	name, _, hasValue := strings.Cut(kv, "=")
	if name == "" {
		return usagef("-x VAR=value", "-x: %q, want VAR or VAR=value", kv)
	}
	if !hasValue {
		var err error
		if kv, err = lookVar(name); err != nil {
			return err
		}
	}
	app.Env = append(app.Env, kv)
	return nil
}
