package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/plan"
)

// Launchers that have an option.
const (
	ofMpirun = "mpirun"
	ofHydra  = "hydra"
	ofSrun   = "srun"
	ofBoth   = "mpirun, hydra"
	ofAll    = "mpirun, hydra, srun"
)

// What oshrun says where it has nothing like an option.
const (
	hintOthers = "oshrun --host a:4,b:4 names the hosts that are used; in a job of Slurm also --host +n1,+n2"
	hintTable  = "oshrun help mpirun"
	hintBind   = "oshrun --bind-to core --map-by socket; without them each PE has its share of the cores"
	hintColon  = "oshrun -n 1 ./a : -n 2 ./b"
	hintDir    = "oshrun --output dir=logs writes logs/rank.N/stdout and stderr"
)

// habits are the options of other launchers that are not oshrun's own by the same
// name. Nothing that changes what a program does is taken and ignored.
var habits = []habit{
	// How many processes.
	{"n ntasks", ofAll, 1, "-n", valueOf("--np")},
	{"c cpus-per-task cpus-per-proc cpus-per-rank", "mpirun, srun", 1, "refused", refuse("mpirun's -c is a number of processes, srun's one of processors for each; oshrun divides the cores among the PEs", "oshrun -n 4 ./program")},
	{"N npernode", "mpirun, srun", 1, "as mpirun has it: --per-node, PEs on each host; srun's -N is --nodes here, but for -N 1 on one host", valueOf("--per-node")},
	{"ppn perhost ntasks-per-node tasks-per-node", "hydra, srun", 1, "PEs on each host, at most if -n is given; without hosts the number of PEs", valueOf("--ppn")},
	{"nodes", ofSrun, 1, "the first so many of the program's hosts are used; without hosts it can be 1 only", valueOf("--nodes")},
	{"pernode", ofMpirun, 0, "one PE on each host; without hosts one", as("--per-node=1")},
	{"npersocket ppr", ofMpirun, 1, "refused", refuse("oshrun does not count PEs by socket or other units", "oshrun -n 4 --map-by socket ./program")},
	{"grr", ofHydra, 1, "the same as -ppn", valueOf("--ppn")},
	{"nooversubscribe no-oversubscribe", ofMpirun, 0, "no more PEs than slots; on this machine alone, than cores", as("--no-oversubscribe")},
	{"share overcommit O", "mpirun, srun", 0, "--oversubscribe", as("--oversubscribe")},

	// Where.
	{"host hosts H", ofAll, 1, "the same: hosts with commas between, name:N for N slots, name:* for all; they choose among those of a file or of Slurm, there also by +n0, +e", valueOf("--host")},
	{"nodelist w", ofSrun, 1, "--host with all slots of these hosts", everySlot},
	{"hostfile machinefile f default-hostfile add-hostfile", ofBoth, 1, "the same: lines such as node1 slots=4 max-slots=8, or node1:4 as with MPICH", valueOf("--hostfile")},
	{"nolocal skip-launch-node", ofBoth, 0, "refused", refuse("oshrun leaves no host out that is listed", hintOthers)},
	{"exclude", ofSrun, 1, "refused", refuse("oshrun leaves no host out that is listed", hintOthers)},
	{"r relative", ofSrun, 1, "refused", refuse("oshrun has names for hosts by their place in Slurm's list", "oshrun --host +n2,+n3 uses the third host and the fourth")},
	{"add-host", ofMpirun, 1, "refused", refuse("oshrun takes the hosts of a job from --host and --hostfile; a PE adds hosts with the info key add-host of MPI_Comm_spawn", hintOthers)},
	{"rankfile rf", ofMpirun, 1, "refused", refuse("oshrun has no rankfiles: PEs go to cores in order", hintBind)},
	{"rank-by", ofMpirun, 1, "the same: slot numbers PEs host by host; node one on each host in turn; fill host by host, in the order of cores; core, socket and so on host by host, one on each unit in turn", valueOf("--rank-by")},
	{"cf cartofile", ofMpirun, 1, "refused", refuse("oshrun reads from the kernel which cores and memory the machine has", "oshrun --display allocation shows it; leave the option out")},
	{"byslot", ofMpirun, 0, "--map-by slot", as("--map-by=slot")},
	{"bynode", ofMpirun, 0, "--map-by node", as("--map-by=node")},
	{"bycore", ofMpirun, 0, "--map-by core", as("--map-by=core")},
	{"bind-to-core", ofMpirun, 0, "--bind-to core", as("--bind-to=core")},
	{"bind-to-socket", ofMpirun, 0, "--bind-to socket", as("--bind-to=socket")},
	{"bind-to-none", ofMpirun, 0, "--bind-to none", as("--bind-to=none")},
	{"use-hwthread-cpus", ofMpirun, 0, "--map-by hwthread", as("--map-by=hwthread")},
	{"cpu-list", ofMpirun, 1, "--cpu-set", valueOf("--cpu-set")},
	{"cpu-bind cpu_bind", ofSrun, 1, "--bind-to with the word for cores, threads, sockets, ldoms or none; verbose: --report-bindings", cpuBind},
	{"m distribution", ofSrun, 1, "cyclic: --map-by node; block: nothing, as it is the default", distribution},
	{"membind mem-bind", "hydra, srun", 1, "refused", refuse("oshrun does not bind memory: a PE that is bound has its memory where it runs", hintBind)},
	{"threads-per-core hint cores-per-socket ntasks-per-core ntasks-per-socket", ofSrun, 1, "refused", refuse("oshrun has --bind-to and --map-by for this", hintBind)},
	{"gpus-per-proc gres gpus G gpus-per-task gpus-per-node gpu-bind", "hydra, srun", 1, "refused", refuse("oshrun does not share out GPUs", "./program reads PMIX_RANK and chooses one")},

	// Environment and directory.
	{"mca omca", ofMpirun, 2, "-x OMPI_MCA_name=value; plm_rsh_agent: --launch exec: with this command in place of ssh", parameter("--x")},
	{"gmca", ofMpirun, 2, "the same for all programs of the job", parameter("--x-all")},
	{"prtemca pmixmca", ofMpirun, 2, "refused", refuse("these parameters are of a launcher that does not run here; oshrun has a PMIx server of its own", "oshrun --mca name value sets one of Open MPI's library")},
	{"am tune", ofMpirun, 1, "refused", refuse("oshrun reads no files of parameters", "oshrun --mca name value ./program")},
	{"genv", ofHydra, 2, "-x NAME=value for all programs of the job", setVariable("--x-all", "")},
	{"env", ofHydra, 2, "-x NAME=value; but all and none are oshrun's own words", setVariable("--x", "")},
	{"envlist", ofHydra, 1, "--env none, and -x NAME for each name", onlyListed("--env=none", "--x")},
	{"genvlist", ofHydra, 1, "the same for all programs of the job", onlyListed("--env-all=none", "--x-all")},
	{"envall", ofHydra, 0, "--env all, the default", as("--env=all")},
	{"genvall preserve-env E", "hydra, srun", 0, "nothing: all variables are passed on", ignore()},
	{"envnone", ofHydra, 0, "--env none", as("--env=none")},
	{"genvnone", ofHydra, 0, "the same for all programs of the job", as("--env-all=none")},
	{"export", ofSrun, 1, "-x for each variable; without ALL, as for NONE, also --env none", export},
	{"wd D chdir cwd", ofAll, 1, "--wdir", valueOf("--wdir")},
	{"path", ofBoth, 1, "refused", refuse("oshrun searches programs in PATH", `PATH=dir:$PATH oshrun -n 4 program`)},
	{"set-cwd-to-session-dir", ofMpirun, 0, "refused", refuse("PEs have no session directory", "oshrun --wdir dir ./program")},
	{"app configfile multi-prog", ofAll, 1, "refused", refuse("oshrun takes several programs in its command line, not from a file", hintColon)},

	// Output and input.
	{"tag-output prepend-rank l label", ofAll, 0, "--output tag", as("--output=tag")},
	{"timestamp-output", ofMpirun, 0, "--output timestamp", as("--output=timestamp")},
	{"merge-stderr-to-stdout", ofMpirun, 0, "--output merge", as("--output=merge")},
	{"output-filename", ofMpirun, 1, "a copy in D/1/rank.N/stdout and stderr, as with Open MPI; :nocopy only there", valueOf("--output-filename")},
	{"unbuffered u", ofSrun, 0, "--output raw; nothing beside labels or times", as(rawOutput)},
	{"stream-buffering", ofMpirun, 1, "--output raw for 0; nothing for 1, lines; 2 is refused", streamBuffering},
	{"outfile-pattern errfile-pattern o e error prepend-pattern", "hydra, srun", 1, "refused", refuse("oshrun writes the output of PEs to its own, or to files of each", hintDir+"; oshrun ... >file 2>file")},
	{"i input", ofSrun, 1, "--stdin for a number, all or none", input},
	{"s", ofAll, optionalReader, "--stdin if a number, all or none follows, as with hydra; otherwise nothing, and refused on several hosts: files are not copied", stdinOrShare},
	{"xml-file", ofMpirun, 1, "refused", refuse("oshrun writes plain text", hintDir)},
	{"xml xterm parseable parsable", ofMpirun, optionalValue, "refused", refuse("oshrun writes plain text", "oshrun --output tag ./program")},
	{"Q", ofSrun, 0, "--quiet", as("--quiet")},
	{"d debug-devel", "mpirun, srun", 0, "refused", refuse("oshrun has a log instead", "GOSHMEM_LOG=debug oshrun -n 4 ./program")},

	// What is shown.
	{"display-map display-devel-map display-diffable-map", ofMpirun, 0, "--display map", as("--display=map")},
	{"display-allocation display-devel-allocation display-topo", ofMpirun, 0, "--display allocation", as("--display=allocation")},
	{"show-progress", ofMpirun, 0, "nothing", ignore()},
	{"info", ofHydra, 0, "refused", refuse("it is a command of oshrun", "oshrun info")},
	{"print-all-exitcodes", ofHydra, 0, "refused", refuse("the status of each PE is in a table at the end", "oshrun --stats ./program")},
	{"report-pid", ofMpirun, 1, "refused", refuse("oshrun does not write its process number", "sh -c 'echo $$ >file; exec oshrun -n 4 ./program'")},
	{"report-child-jobs-separately", ofMpirun, 0, "refused", refuse("oshrun has one exit status for a job and those that its PEs start", "oshrun help exit-codes; leave the option out")},
	{"report-events", ofMpirun, 1, "refused", refuse("oshrun sends no events to an address", "oshrun --report-uri file lets tools attach")},
	{"output-proctable", ofMpirun, optionalValue, "refused", refuse("-v says of each PE which process it is", "oshrun -v -n 4 ./program")},

	// Failures and time.
	{"enable-recovery disable-auto-cleanup", ofBoth, 0, "--recover", as("--recover")},
	{"disable-recovery", ofMpirun, 0, "nothing: without --recover a failure ends the job", ignore()},
	{"with-ft", ofMpirun, 1, "--recover for ulfm or mpi", withFT},
	{"kill-on-bad-exit K", ofSrun, optionalValue, "nothing; --recover for 0", killOnBadExit},
	{"no-kill k", ofSrun, 0, "--recover: a node that is lost does not end the job, nor does a PE that fails", as("--recover")},
	{"max-restarts continuous", ofMpirun, optionalValue, "refused", refuse("oshrun starts no PE again, that is planned", "oshrun --recover lets the others go on")},
	{"get-stack-traces", ofMpirun, 0, "--stacks", as("--stacks")},
	{"report-state-on-timeout", ofMpirun, 0, "nothing: --timeout says which PEs still run", ignore()},
	{"time t", ofSrun, 1, "--timeout; a plain number is minutes", slurmTime},
	{"wait W", ofSrun, 1, "refused", refuse("oshrun waits for all PEs", "oshrun --timeout 90s ./program")},

	// Starting on other hosts, queues and daemons.
	{"launcher bootstrap", ofHydra, 1, "--launch for ssh, slurm, rsh or fork, which starts all on this machine", launcher},
	{"launcher-exec bootstrap-exec", ofHydra, 1, "--launch exec: with this command in place of ssh", launcherCommand},
	{"iface", ofHydra, 1, "--interface", valueOf("--interface")},
	{"launch-agent", ofMpirun, 1, "refused", refuse("it names a daemon of Open MPI; oshrun starts its own, also by another command than ssh", "oshrun --prefix DIR starts DIR/bin/oshrun on the hosts, --launch exec:COMMAND starts it by COMMAND")},
	{"preload-files", ofMpirun, 1, "nothing, and refused on several hosts: files are not copied", onlyHere},
	{"preload-binary", ofMpirun, 0, "likewise", onlyHere},
	{"order-nodes", ofHydra, 1, "nothing, and refused on several hosts: they are used in the order in which they are listed", onlyHere},
	{"max-vm-size", ofMpirun, 1, "nothing, and refused on several hosts: --nodes limits them", onlyHere},
	{"localhost", ofHydra, 1, "nothing, and refused on several hosts: --interface says where daemons find this machine", onlyHere},
	{"enable-x", ofHydra, 0, "nothing, and refused on several hosts", onlyHere},
	{"rmk", ofHydra, 1, "nothing for slurm: oshrun finds a job of Slurm itself", resourceManager},
	{"topolib demux personality", ofBoth, 1, "nothing: oshrun has no such choice", ignore()},
	{"noprefix disable-hostname-propagation pmi-port disable-x leave-session-attached debug-daemons debug-daemons-file novm do-not-resolve use-regexp fwd-mpirun-port enable-instant-on-support", ofBoth, 0, "nothing: oshrun's daemons have no such choice", ignore()},
	{"J job-name A account p qos comment", ofSrun, 1, "nothing: there is no queue", ignore()},
	{"exclusive overlap exact immediate I", ofSrun, optionalValue, "nothing: there is no queue", ignore()},
	{"mem mem-per-cpu mem-per-gpu constraint C reservation", ofSrun, 1, "refused", refuse("oshrun allocates nothing of a cluster", "ulimit -v limits memory; leave the option out")},
	{"mpi", ofSrun, 1, "nothing for pmix or none: oshrun serves PMIx and PMI-1", mpiKind},
	{"dvm-uri hnp ompi-server nameserver", ofBoth, 1, "refused", refuse("oshrun starts the daemons of each job, and uses no others", "leave the option out; oshrun --report-uri lets tools attach")},
	{"dvm index-argv-by-rank stop-on-exec profile", ofBoth, 0, "refused", refuse("oshrun has nothing like it", hintTable)},
	{"tv", ofMpirun, 0, "refused", refuse("oshrun starts no debugger", "oshrun -n 4 --debug 3 ./program lets PE 3 wait for one")},
	{"debugger runtime-options forward-signals usize", ofBoth, 1, "refused", refuse("oshrun has nothing like it", "oshrun help signals; oshrun help mpirun")},
}

// setVariable stands for options that set an environment variable by name and value.
func setVariable(flag, prefix string) turn {
	return func(g *given) ([]string, error) {
		if g.values[0] == "" {
			return nil, usagef(hintTable, `%s: name "", want that of a variable or parameter`, g.name)
		}
		return []string{flag + "=" + prefix + g.values[0] + "=" + g.values[1]}, nil
	}
}

// sshParameters are parameters of Open MPI that name the command in place of ssh.
var sshParameters = []string{"plm_rsh_agent", "plm_ssh_agent", "orte_rsh_agent", "pls_rsh_agent"}

// parameter stands for options that set a parameter of Open MPI: of its library by a variable.
func parameter(flag string) turn {
	set := setVariable(flag, "OMPI_MCA_")
	return func(g *given) ([]string, error) {
		if slices.Contains(sshParameters, g.values[0]) {
			command, _, _ := strings.Cut(g.values[1], ":") // others behind it are tried if it is not there
			return launcherCommand(&given{name: g.name + " " + g.values[0], values: []string{strings.TrimSpace(command)}})
		}
		return set(g)
	}
}

// everySlot stands for srun's list of nodes, whose hosts are used with all slots that they have.
func everySlot(g *given) ([]string, error) {
	list := g.value()
	if !strings.ContainsAny(list, ":/") {
		list = plan.WithAllSlots(list)
	}
	return []string{"--host=" + list}, nil
}

// cpuBindWords are srun's words for what oshrun binds to.
var cpuBindWords = map[string]string{"cores": "core", "threads": "hwthread", "sockets": "socket", "ldoms": "numa", "none": "none", "no": "none"}

func cpuBind(g *given) (own []string, err error) {
	for word := range strings.SplitSeq(g.value(), ",") {
		switch to := cpuBindWords[word]; {
		case to != "":
			own = append(own, "--bind-to="+to)
		case word == "verbose" || word == "v":
			own = append(own, "--report-bindings")
		case word != "quiet" && word != "q":
			return nil, usagef(hintBind, "%s: %q, want cores, threads, sockets, ldoms, none or verbose", g.name, word)
		}
	}
	return own, nil
}

func distribution(g *given) ([]string, error) {
	switch g.value() {
	case "block", "*":
		return nil, nil
	case "cyclic":
		return []string{"--map-by=node"}, nil
	}
	return nil, usagef(hintBind, "%s: %q, want block or cyclic; within a node oshrun has --map-by", g.name, g.value())
}

// launcher reads which program of hydra starts daemons.
func launcher(g *given) ([]string, error) {
	switch g.value() {
	case "ssh":
		return []string{"--launch=ssh"}, nil
	case "slurm", "srun":
		return []string{"--launch=srun"}, nil
	case "fork":
		return []string{"--launch=local"}, nil
	case "rsh":
		return []string{"--launch=exec:rsh {host}"}, nil
	}
	return nil, usagef(`oshrun --launch "exec:COMMAND {host}"`, "%s: %q, want ssh, slurm, rsh or fork", g.name, g.value())
}

// resourceManager reads which system hydra asks for hosts.
func resourceManager(g *given) ([]string, error) {
	if g.value() == "slurm" {
		return nil, nil
	}
	return nil, usagef("leave the option out; env -u SLURM_JOB_ID -u SLURM_JOBID oshrun ... takes no notice of Slurm", "%s: %q, want slurm: in a job of Slurm its hosts are used", g.name, g.value())
}

// launcherCommand reads the path of the program that stands for ssh.
func launcherCommand(g *given) ([]string, error) {
	if len(strings.Fields(g.value())) == 0 {
		return nil, usagef(hintTable, "%s: %q, want a command that is called as ssh is", g.name, g.value())
	}
	return []string{"--launcher-command=" + g.value()}, nil
}

// onlyHere stands for options that have no effect on one machine, and would need one on several hosts.
func onlyHere(g *given) ([]string, error) { return []string{"--only-here=" + g.name}, nil }

func input(g *given) ([]string, error) {
	if _, err := strconv.Atoi(g.value()); err == nil || g.value() == "all" || g.value() == "none" {
		return []string{"--stdin=" + g.value()}, nil
	}
	return nil, usagef("oshrun --stdin all -n 4 ./program <file", "%s: %q, want a PE, all or none", g.name, g.value())
}

// stdinOrShare reads -s: with a value it is hydra's for standard input. Without one it is
// mpirun's for files on other nodes, or srun's for nodes that are shared.
func stdinOrShare(g *given) ([]string, error) {
	if g.value() == "" {
		return onlyHere(g)
	}
	return input(g)
}

func streamBuffering(g *given) ([]string, error) {
	switch g.value() {
	case "0":
		return []string{rawOutput}, nil
	case "1":
		return nil, nil
	case "2":
		return nil, usagef("leave the option out", "%s: 2, want 0 or 1: oshrun does not collect output beyond the end of a line", g.name)
	}
	return nil, usagef("oshrun --output raw ./program", "%s: %q, want 0 for bytes as they come, or 1 for lines", g.name, g.value())
}

func withFT(g *given) ([]string, error) {
	switch g.value() {
	case "ulfm", "mpi":
		return []string{"--recover"}, nil
	case "no", "none":
		return nil, nil
	}
	return nil, usagef("oshrun --recover", "%s: %q, want ulfm, mpi or no", g.name, g.value())
}

func killOnBadExit(g *given) ([]string, error) {
	switch g.value() {
	case "", "1":
		return nil, nil
	case "0":
		return []string{"--recover"}, nil
	}
	return nil, usagef("oshrun --recover", "%s: %q, want 0 or 1", g.name, g.value())
}

func mpiKind(g *given) ([]string, error) {
	switch kind, _, _ := strings.Cut(g.value(), "_v"); kind {
	case "pmix", "none", "pmi1":
		return nil, nil
	}
	return nil, usagef("leave the option out", "%s: %q, want pmix or none: oshrun serves PMIx and PMI-1", g.name, g.value())
}

// slurmTime reads a limit as srun has it: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes[:seconds].
func slurmTime(g *given) ([]string, error) {
	rest := g.value()
	days, clock, hasDays := strings.Cut(rest, "-")
	units := []time.Duration{time.Minute, time.Second}
	if hasDays {
		rest, units = clock, []time.Duration{time.Hour, time.Minute, time.Second}
	} else if strings.Count(rest, ":") == 2 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	var sum time.Duration
	add := func(text string, unit time.Duration) bool {
		n, err := strconv.ParseUint(text, 10, 31)
		sum += time.Duration(n) * unit
		return err == nil
	}
	good := !hasDays || add(days, 24*time.Hour)
	parts := strings.Split(rest, ":")
	for i, part := range parts {
		good = good && i < len(units) && add(part, units[i])
	}
	if good && sum == 0 { // as srun has it: no limit
		return nil, nil
	}
	if !good {
		return nil, usagef("oshrun --timeout 90s", "%s: %q, want minutes, minutes:seconds or hours:minutes:seconds", g.name, g.value())
	}
	return []string{fmt.Sprintf("--timeout=%v", sum)}, nil
}
