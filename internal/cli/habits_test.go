package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usual lists usual command lines of other launchers, without their names, and what oshrun makes of them: its own flags
// or, after an exclamation mark, words of the refusal. The program is ./a, whose own options are never changed.
var usual = map[string][][2]string{
	"mpirun of Open MPI 4": {
		{"-np 4 ./a -np 5", "--np 4 ./a -np 5"},
		{"--np 4 ./a", "--np 4 ./a"},
		{"-n 4 ./a --tag-output", "-n 4 ./a --tag-output"},
		{"--n 4 ./a", "--np=4 ./a"},
		{"-c 4 ./a", "! -c number of processes hint: oshrun -n 4"},
		{"-np 4 --oversubscribe ./a", "--np 4 --oversubscribe ./a"},
		{"--allow-run-as-root -np 2 ./a", "--allow-run-as-root --np 2 ./a"},
		{"-np 2 --tag-output ./a", "--np 2 --output=tag ./a"},
		{"-tag-output -np 2 ./a", "--output=tag --np 2 ./a"},
		{"-np 2 --timestamp-output ./a", "--np 2 --output=timestamp ./a"},
		{"-np 2 --output-filename out ./a", "--np 2 --output-filename out ./a"},
		{"-np 2 -output-filename out:nocopy ./a", "--np 2 --output-filename out:nocopy ./a"},
		{"-np 2 --merge-stderr-to-stdout ./a", "--np 2 --output=merge ./a"},
		{"--mca btl self,vader -np 2 ./a", "--x=OMPI_MCA_btl=self,vader --np 2 ./a"},
		{"-mca pml ob1 -np 2 ./a --mca x y", "--x=OMPI_MCA_pml=ob1 --np 2 ./a --mca x y"},
		{"--gmca pml ob1 -np 2 ./a", "--x-all=OMPI_MCA_pml=ob1 --np 2 ./a"},
		{"-np 2 -x PATH -x A=1 ./a", "--np 2 -x PATH -x A=1 ./a"},
		{"-np 2 --bind-to core ./a", "--np 2 --bind-to core ./a"},
		{"-np 2 -bind-to socket ./a", "--np 2 --bind-to socket ./a"},
		{"-np 2 --bind-to hwthread ./a", "--np 2 --bind-to hwthread ./a"},
		{"-np 2 --bind-to l2cache ./a", "! --bind-to l2cache l3cache hint:"},
		{"-np 2 -bind-to-core -bycore ./a", "--np 2 --bind-to=core --map-by=core ./a"},
		{"-np 2 --bind-to-none ./a", "--np 2 --bind-to=none ./a"},
		{"-np 2 --map-by core ./a", "--np 2 --map-by core ./a"},
		{"-np 2 --map-by slot:OVERSUBSCRIBE ./a", "--np 2 --map-by slot:OVERSUBSCRIBE ./a"},
		{"-np 2 --map-by :OVERSUBSCRIBE ./a", "--np 2 --map-by=slot:OVERSUBSCRIBE ./a"},
		{"-np 2 -map-by=:oversubscribe ./a", "--np 2 --map-by=slot:oversubscribe ./a"},
		{"-np 1000 --map-by :NOOVERSUBSCRIBE ./a", "! 1000 PEs hint:"},
		{"-np 2 --map-by :PE=2 ./a", "! --map-by pe=2 hint:"},
		{"-np 1000 --bind-to :overload-allowed ./a", "--np 1000 ./a"},
		{"-np 1000 --bind-to overload-allowed ./a", "--np 1000 ./a"},
		{"-np 2 --bind-to=:OVERLOAD-ALLOWED:if-supported ./a", "--np 2 ./a"},
		{"-np 2 --bind-to :many ./a", `! --bind-to ":many" core hint: --bind-to core`},
		{"-np 2 --cpu-list 0 --bind-to cpu-list:ordered ./a", `! --bind-to "cpu-list:ordered" core hint: --cpu-set --bind-to core`},
		{"-np 2 --map-by ppr:2:node ./a", "--np 2 --map-by ppr:2:node ./a"},
		{"-np 3 --map-by ppr:2:node ./a", "! 2 for 3 PEs several nodes hint: --hostfile"},
		{"-np 4 -H n1:2,n2:2 --map-by ppr:2:node ./a", "--np 4 --host=n1:2,n2:2 --map-by ppr:2:node ./a"},
		{"-np 2 --map-by ppr:1:core ./a", "--np 2 --map-by ppr:1:core ./a"},
		{"-np 2 --map-by ppr:2:rack ./a", "! --map-by ppr:2:rack ppr:N:node hint:"},
		{"-np 2 --map-by seq ./a", "! --map-by seq --hostfile hint: --hostfile"},
		{"-H n1,n2,n1 --map-by seq ./a", "--host=n1,n2,n1 --map-by seq ./a"},
		{"-np 2 --map-by nod ./a", "! --map-by nod did you mean node hint:"},
		{"-np 2 --map-by :OVERSUBSCRIB ./a", "! oversubscrib did you mean oversubscribe hint:"},
		{"-np 2 --bynode ./a", "--np 2 --map-by=node ./a"},
		{"-np 2 --map-by node:PE=2 ./a", "! --map-by pe=2 hint:"},
		{"-np 2 --rank-by slot ./a", "--np 2 --rank-by slot ./a"},
		{"-np 2 -rank-by=node ./a", "--np 2 --rank-by=node ./a"},
		{"-np 2 --rank-by socket ./a", "--np 2 --rank-by socket ./a"},
		{"-np 2 --rank-by package ./a", "--np 2 --rank-by package ./a"},
		{"-np 2 --rank-by fill ./a", "--np 2 --rank-by fill ./a"},
		{"-np 2 --rank-by span ./a", "! --rank-by span hint: --rank-by slot"},
		{"-np 2 -cf file ./a", "! -cf kernel hint: --display allocation"},
		{"-np 2 --cartofile file ./a", "! --cartofile kernel hint:"},
		{"-np 2 --max-vm-size 4 ./a", "--np 2 --only-here=--max-vm-size ./a"},
		{"-np 2 --max-vm-size 4 --host a,b ./a", "! --max-vm-size daemon hint: --nodes"},
		{"-np 2 --host a,b --mca plm_rsh_agent /usr/bin/rsh ./a", "--np 2 --host a,b --launcher-command=/usr/bin/rsh ./a"},
		{"-np 2 --launch-agent orted --host a,b ./a", "! --launch-agent daemon of Open MPI hint: --prefix --launch exec"},
		{"-np 2 --preload-files x,y ./a", "--np 2 --only-here=--preload-files ./a"},
		{"-np 2 --preload-files x,y --host a,b ./a", "! --preload-files copies no files hint: same path"},
		{"-np 1 --host a,b ./a : -np 1 --preload-binary ./b", "! --preload-binary copies no files hint:"},
		{"-np 2 -s --host a,b ./a", "! -s copies no files hint:"},
		{"-np 2 --report-child-jobs-separately ./a", "! --report-child-jobs-separately hint: exit-codes"},
		{"-np 2 --report-events uri ./a", "! --report-events hint: --report-uri"},
		{"-np 2 --xml-file file ./a", "! --xml-file hint: oshrun --output dir"},
		{"-np 2 -s ./a", "--np 2 --only-here=-s ./a"},
		{"-np 2 --report-bindings ./a", "--np 2 --report-bindings ./a"},
		{"-np 2 --cpu-set 0 ./a", "--np 2 --cpu-set 0 ./a"},
		{"-np 2 --cpu-list 0 ./a", "--np 2 --cpu-set=0 ./a"},
		{"-np 2 --use-hwthread-cpus ./a", "--np 2 --map-by=hwthread ./a"},
		{"-np 2 --display-map ./a", "--np 2 --display=map ./a"},
		{"-np 2 --display-allocation --do-not-launch ./a", "--np 2 --display=allocation --do-not-launch ./a"},
		{"-np 2 -q ./a", "--np 2 -q ./a"},
		{"-V", "--version"},
		{"--version", "--version"},
		{"-np 2 -v ./a", "--np 2 -v ./a"},
		{"-h", "--help"},
		{"--enable-recovery -np 2 ./a", "--recover --np 2 ./a"},
		{"-np 2 --timeout 60 --get-stack-traces --report-state-on-timeout ./a", "--np 2 --timeout 60 --stacks ./a"},
		{"-np 2 --host localhost ./a", "--np 2 --host localhost ./a"},
		{"-H localhost:2 ./a", "--host=localhost:2 ./a"},
		{"-np 4 --host node1,node2 ./a", "! not enough slots: 4 PEs at most 2 node1 (1) hint: --host a:4 :OVERSUBSCRIBE"},
		{"-np 4 --host node1,node2 --oversubscribe ./a", "--np 4 --host node1,node2 --oversubscribe ./a"},
		{"-np 4 --host node1:2,node2:2 ./a", "--np 4 --host node1:2,node2:2 ./a"},
		{"-np 4 --host node1:2,node2: ./a", `! --host node1:2,node2: slots "" hint: --hostfile`},
		{"-np 4 --host +n0 ./a", "! --host +n0 no hosts hint: --hostfile"},
		{"-np 4 --oversubscribe --nooversubscribe ./a", "! --oversubscribe --nooversubscribe exclude hint: leave one"},
		{"-np 4 --hostfile /no/such/hosts ./a", "! --hostfile /no/such/hosts hint:"},
		{"-np 4 -hostfile /no/such/hosts ./a", "! --hostfile /no/such/hosts hint:"},
		{"-machinefile /no/such/hosts -np 4 ./a", "! --hostfile /no/such/hosts hint:"},
		{"-N 2 ./a", "--per-node=2 ./a"},
		{"-np 8 -npernode 4 ./a", "! -N 4 for 8 PEs several nodes hint:"},
		{"-np 8 -npernode 4 -H n1:4,n2:4 ./a", "--np 8 --per-node=4 --host=n1:4,n2:4 ./a"},
		{"-np 9 -npernode 4 -H n1:4,n2:4 ./a", "! not enough hosts: 9 PEs at most 8: 4 on each hint: --nodes"},
		{"-pernode ./a", "--per-node=1 ./a"},
		{"-np 2 --npersocket 1 ./a", "! --npersocket hint: oshrun -n 4 --map-by socket"},
		{"-np 1000 --nooversubscribe ./a", "! --nooversubscribe 1000 PEs hint:"},
		{"-np 2 --rankfile r ./a", "! --rankfile hint:"},
		{"-np 2 -wdir / ./a", "--np 2 --wdir / ./a"},
		{"-np 2 -wd / ./a", "--np 2 --wdir=/ ./a"},
		{"-np 2 --stdin all ./a", "--np 2 --stdin all ./a"},
		{"-np 2 --xml ./a", "! --xml hint:"},
		{"-np 2 --am file ./a", "! --am hint:"},
		{"-np 1 ./a : -np 1 ./b", "--np 1 ./a : -np 1 ./b"},
		{"--app file", "! --app hint:"},
		{"-np 2 --leave-session-attached ./a", "--np 2 ./a"},
		{"-np 2 --report-uri - ./a", "--np 2 --report-uri - ./a"},
		{"-np 2 --nolocal ./a", "! --nolocal leaves no host out hint: --host"},
		{"-np 2 --add-host a ./a", "! --add-host takes the hosts hint:"},
		{"-np 2 --preload-binary --prefix /opt ./a", "--np 2 --only-here=--preload-binary --prefix /opt ./a"},
		{"-np 2 --tv ./a", "! --tv hint: --debug 3"},
		{"-np 2 --debug 1 ./a", "--np 2 --debug 1 ./a"},
		{"-np 2 --tag-outputs ./a", "! --tag-outputs did you mean --tag-output hint:"},
	},
	"mpirun of Open MPI 5": {
		{"-n 2 --output tag,timestamp ./a", "-n 2 --output tag,timestamp ./a"},
		{"-n 2 --output merge-stderr-to-stdout ./a", "-n 2 --output merge-stderr-to-stdout ./a"},
		{"-n 2 --output dir=logs ./a", "-n 2 --output dir=logs ./a"},
		{"-n 2 --output file=log ./a", "! --output file=log want dir=D hint:"},
		{"-n 2 --stream-buffering 0 ./a", "-n 2 --output=raw ./a"},
		{"-n 2 --stream-buffering=0 --output tag ./a", "-n 2 --output tag ./a"},
		{"-n 2 --stream-buffering 1 ./a", "-n 2 ./a"},
		{"-n 2 --stream-buffering 2 ./a", "! --stream-buffering 2 want 0 or 1 hint: leave"},
		{"-n 2 --stream-buffering none ./a", `! --stream-buffering "none" want 0 hint:`},
		{"-n 2 --display map,allocation ./a", "-n 2 --display map,allocation ./a"},
		{"-n 2 --display bind ./a", "-n 2 --display bind ./a"},
		{"-n 2 --bind-to package ./a", "-n 2 --bind-to package ./a"},
		{"-n 2 --map-by package ./a", "-n 2 --map-by package ./a"},
		{"-n 2 --with-ft ulfm ./a", "-n 2 --recover ./a"},
		{"-n 2 --prtemca plm_ssh_agent ssh ./a", "! --prtemca hint:"},
		{"-n 2 --pmixmca gds hash ./a", "! --pmixmca hint:"},
		{"-n 2 --runtime-options continuous ./a", "! --runtime-options hint:"},
		{"-n 2 --tune file ./a", "! --tune hint:"},
		{"-n 2 --dvm-uri file:x ./a", "! --dvm-uri hint:"},
		{"-n 2 --personality ompi ./a", "-n 2 ./a"},
	},
	"mpiexec.hydra": {
		{"-n 4 ./a", "-n 4 ./a"},
		{"-np 4 ./a -l", "--np 4 ./a -l"},
		{"-l -n 2 ./a", "--output=tag -n 2 ./a"},
		{"-prepend-rank -n 2 ./a", "--output=tag -n 2 ./a"},
		{"-n 2 -genv A 1 ./a", "-n 2 --x-all=A=1 ./a"},
		{"-n 2 -genv A=1 ./a", "-n 2 --x-all=A=1 ./a"},
		{"-n 2 -env A 1 ./a", "-n 2 --x=A=1 ./a"},
		{"-s all -n 2 ./a", "--stdin=all -n 2 ./a"},
		{"-s none -n 2 ./a", "--stdin=none -n 2 ./a"},
		{"-n 2 -s 1 ./a", "-n 2 --stdin=1 ./a"},
		{"-n 4 -s 1,3 ./a", `! -s "1,3" a PE, all or none hint: --stdin all`},
		{"-genvlist HOME,PATH -n 2 ./a", "--env-all=none --x-all=HOME --x-all=PATH -n 2 ./a"},
		{"-envlist NO_SUCH_VARIABLE -n 2 ./a", "! -x: NO_SUCH_VARIABLE is not set hint: -x NO_SUCH_VARIABLE=value"},
		{"-genvlist A=1 -n 2 ./a", "! -genvlist names of variables hint: --env none"},
		{"-env none -n 2 ./a", "--env none -n 2 ./a"},
		{"-env=A=1 -n 2 ./a", "--x=A=1 -n 2 ./a"},
		{"--env=some -n 2 ./a", "! --env some all or none hint: --env none"},
		{"-genvall -n 2 ./a", "-n 2 ./a"},
		{"-genvnone -n 2 ./a", "--env-all=none -n 2 ./a"},
		{"-n 2 ./a : -envnone -n 2 ./b", "-n 2 ./a : -envnone -n 2 ./b"},
		{"-genvnone -envall -n 2 ./a", "--env-all=none --env=all -n 2 ./a"},
		{"-ppn 2 -n 4 ./a", "--ppn 2 -n 4 ./a"},
		{"-hosts localhost -n 2 ./a", "--host=localhost -n 2 ./a"},
		{"-hosts n1,n2 -ppn 2 -n 4 ./a", "--host=n1,n2 --ppn 2 -n 4 ./a"},
		{"-f /no/such/hosts -n 4 ./a", "! --hostfile /no/such/hosts hint:"},
		{"-bind-to core -n 2 ./a", "--bind-to core -n 2 ./a"},
		{"-bind-to socket -map-by socket -n 2 ./a", "--bind-to socket --map-by socket -n 2 ./a"},
		{"-bind-to rr -n 2 ./a", "! --bind-to rr core hint:"},
		{"-wdir / -n 2 ./a", "--wdir / -n 2 ./a"},
		{"-launcher fork -n 2 ./a", "--launch=local -n 2 ./a"},
		{"-launcher ssh -hosts a,b -n 2 ./a", "--launch=ssh --host=a,b -n 2 ./a"},
		{"-bootstrap slurm -n 2 ./a", "--launch=srun -n 2 ./a"},
		{"-bootstrap sge -n 2 ./a", `! -bootstrap "sge" ssh, slurm hint: exec:`},
		{"-bootstrap-exec /usr/bin/ssh -bootstrap ssh -hosts a,b -n 2 ./a", "--launcher-command=/usr/bin/ssh --launch=ssh --host=a,b -n 2 ./a"},
		{"-bootstrap-exec /usr/bin/ssh -bootstrap slurm -hosts a,b -n 2 ./a", "! srun /usr/bin/ssh exclude hint: leave one"},
		{"-iface lo -hosts a,b -n 2 ./a", "--interface=lo --host=a,b -n 2 ./a"},
		{"-iface nosuch0 -hosts a,b -n 2 ./a", "! nosuch0 hint: --interface"},
		{"-enable-x -localhost n1 -n 2 ./a", "--only-here=-enable-x --only-here=-localhost -n 2 ./a"},
		{"-enable-x -hosts a,b -n 2 ./a", "! -enable-x display hint: -x DISPLAY"},
		{"-localhost n1 -hosts a,b -n 2 ./a", "! -localhost addresses hint: --interface"},
		{"-rmk slurm -n 2 ./a", "-n 2 ./a"},
		{"-rmk user -n 2 ./a", `! -rmk "user" slurm hint: SLURM_JOB_ID`},
		{"-order-nodes ASCENDING -n 2 ./a", "--only-here=-order-nodes -n 2 ./a"},
		{"-order-nodes ASCENDING -hosts a,b -n 2 ./a", "! -order-nodes in the order hint: leave"},
		{"-disable-auto-cleanup -n 2 ./a", "--recover -n 2 ./a"},
		{"-outfile-pattern out.%r -n 2 ./a", "! -outfile-pattern hint: oshrun --output dir"},
		{"-print-all-exitcodes -n 2 ./a", "! -print-all-exitcodes hint: oshrun --stats"},
		{"-configfile f", "! -configfile hint:"},
		{"-verbose -n 2 ./a", "--verbose -n 2 ./a"},
		{"-info", "! -info hint: oshrun info"},
		{"-gpus-per-proc 1 -n 2 ./a", "! -gpus-per-proc hint:"},
	},
	"srun": {
		{"-n 4 ./a", "-n 4 ./a"},
		{"-n4 -l ./a", "-n4 --output=tag ./a"},
		{"--ntasks=4 --label ./a", "--np=4 --output=tag ./a"},
		{"-N 1 -n 2 ./a", "--per-node=1 -n 2 ./a"},
		{"-N1 -n2 ./a", "--per-node=1 -n2 ./a"},
		{"-N 2 -n 8 ./a", "! -N 2 several nodes no hosts hint: --hostfile"},
		{"--nodes=2 -n 8 ./a", "! --nodes: 2 no hosts hint: --hostfile"},
		{"--nodes=2 -n 2 -w n[1-4] ./a", "--nodes=2 -n 2 --host=n[1-4]:* ./a"},
		{"--nodes=2-4 ./a", `! --nodes: "2-4" a number of hosts hint:`},
		{"--nodes=1 --ntasks-per-node=2 ./a", "--nodes=1 --ppn=2 ./a"},
		{"-c 2 -n 2 ./a", "! -c hint:"},
		{"--cpus-per-task=2 ./a", "! --cpus-per-task hint:"},
		{"--cpu-bind=cores -n 2 ./a", "--bind-to=core -n 2 ./a"},
		{"--cpu-bind=verbose,sockets -n 2 ./a", "--report-bindings --bind-to=socket -n 2 ./a"},
		{"--cpu-bind=map_cpu:0,1 ./a", "! --cpu-bind map_cpu:0 hint:"},
		{"--mpi=pmix -n 2 ./a", "-n 2 ./a"},
		{"--mpi=pmi2 -n 2 ./a", "! --mpi pmi2 PMIx hint:"},
		{"-t 5 -n 2 ./a", "--timeout=5m0s -n 2 ./a"},
		{"--time=1:30:00 ./a", "--timeout=1h30m0s ./a"},
		{"-t 1-2 ./a", "--timeout=26h0m0s ./a"},
		{"-t soon ./a", "! -t soon minutes hint:"},
		{"-D / -n 2 ./a", "--wdir=/ -n 2 ./a"},
		{"--chdir=/ ./a", "--wdir=/ ./a"},
		{"--export=ALL,A=1 ./a", "--x=A=1 ./a"},
		{"--export=NONE ./a", "--env=none ./a"},
		{"--export=nil,A=1 ./a", "--env=none --x=A=1 ./a"},
		{"--export=ALL,PATH ./a", "./a"},
		{"--export=A,,B ./a", "! --export A,,B ALL, NONE hint: --env none"},
		{"-w node7 ./a", "--host=node7:* ./a"},
		{"-w ./file ./a", "! --host ./file letters hint:"},
		{"-u -n 2 ./a", "--output=raw -n 2 ./a"},
		{"-l -u -n 2 ./a", "--output=tag -n 2 ./a"},
		{"--unbuffered -n 2 --label -u ./a", "-n 2 --output=tag ./a"},
		{"-u --output=timestamp ./a", "--output=timestamp ./a"},
		{"-l --output=raw ./a", "! raw excludes tag hint:"},
		{"-s -n 2 ./a", "--only-here=-s -n 2 ./a"},
		{"-o out.%t -n 2 ./a", "! -o hint: oshrun --output dir"},
		{"-K -n 2 ./a", "-n 2 ./a"},
		{"-K0 -n 2 ./a", "--recover -n 2 ./a"},
		{"--kill-on-bad-exit=0 ./a", "--recover ./a"},
		{"-J name -p debug --exclusive ./a", "./a"},
		{"--mem=4G ./a", "! --mem hint:"},
		{"-m block -n 2 ./a", "-n 2 ./a"},
		{"-m cyclic -n 2 -w a,b ./a", "--map-by=node -n 2 --host=a:*,b:* ./a"},
		{"-k -n 2 ./a", "--recover -n 2 ./a"},
		{"-r 2 -n 2 ./a", "! -r hint: --host +n2"},
		{"--exclude=n1 -n 2 ./a", "! --exclude leaves no host out hint: --host"},
		{"--distribution=plane=2 ./a", "! --distribution plane=2 hint:"},
		{"--multi-prog file", "! --multi-prog hint:"},
		{"-i none ./a", "--stdin=none ./a"},
		{"--gres=gpu:1 ./a", "! --gres hint:"},
		{"--hint=nomultithread ./a", "! --hint hint:"},
		{"-Q ./a", "--quiet ./a"},
		{"-vvv -n 2 ./a", "-vvv -n 2 ./a"},
	},
}

// letterComplaint is the flag package's error for options that it reads as single letters.
var letterComplaint = regexp.MustCompile(`shorthand|unknown flag`)

// TestUsualCommandLines: oshrun understands each command line as its launcher means it, or refuses it with a message
// that names the option and says what helps. A dry run accepts all that are understood, so they are complete.
func TestUsualCommandLines(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a")
	check(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	for of, lines := range usual {
		for _, x := range lines {
			line, want := x[0], x[1]
			own, err := translate(strings.Fields(line), newRoot(nil).Flags())
			refusal, refused := strings.CutPrefix(want, "! ")
			if d := cmp.Diff(strings.Fields(want), own); !refused && (err != nil || d != "") {
				t.Errorf("%s %s: %v (-want +got):\n%s", of, line, err, d)
				continue
			}
			args := strings.Fields(strings.Replace(strings.Replace(line, "./a", program, 1), "./b", program, 1))
			status, out, said := execute(t, append([]string{"--do-not-launch"}, args...)...)
			switch {
			case letterComplaint.MatchString(said):
				t.Errorf("%s %s: error about a single letter: %s", of, line, said)
			case !refused && status != 0:
				t.Errorf("%s %s: status %d, %s", of, line, status, said)
			case refused && (status != 2 || out != ""):
				t.Errorf("%s %s: status %d, output %q, want a refusal", of, line, status, out)
			}
			for i, words := range strings.SplitN(refusal, " hint:", 2) {
				for word := range strings.FieldsSeq(words) {
					if refused && !strings.Contains(strings.SplitN(said+"\nhint:", "\nhint:", 3)[i], word) {
						t.Errorf("%s %s: the refusal lacks %q:\n%s", of, line, word, said)
					}
				}
			}
			if refused && !strings.Contains(said, "\nhint: ") {
				t.Errorf("%s %s: no hint:\n%s", of, line, said)
			}
		}
	}
}

// Options without their values, and options with a value where there is none, are errors.
func TestHabitValues(t *testing.T) {
	for line, want := range map[string]string{
		"-genv A": "want a name and a value", "--mca": "want a name and a value", "-genv": "want a name and a value", "-hosts": "want a value",
		"--tag-output=yes ./a": "--tag-output=yes: the option has no value", "-foo ./a": "unknown option -foo", "-nt 4 ./a": "unknown option -nt",
		"--mca =x y ./a": `name ""`, "--\x1b[31mred ./a": `\x1b[31mred`,
	} {
		if own, err := translate(strings.Fields(line), newRoot(nil).Flags()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want an error with %q", line, own, err, want)
		}
	}
}

// An error about an unknown option suggests the option that was probably meant, or none.
func TestDidYouMean(t *testing.T) {
	for word, want := range map[string]string{
		"--sdtin": "--stdin", "--stdni": "--stdin", "--wdri": "--wdir", "--queit": "--quiet", "--qiut": "--quiet", "--stast": "--stats", // swapped
		"--stat": "--stats", "--bnid-to": "--bind-to", "--ouptut=tag": "--output", "--tag-outputs": "--tag-output", "--verbsoe": "--verbose",
		"--timestamp": "--timestamp-output", "--tag": "--tag-output", "--output-file": "--output-filename", "--bind": "--bind-to", "--heap": "--heap-size", // beginnings
		"--stderr-to-stdout": "--merge-stderr-to-stdout", "--hwthread-cpus": "--use-hwthread-cpus", // words of it
		"--verbosity": "--verbose", // a long beginning
		"--num-procs": "--np", "--nproc=4": "--np", "--npes": "--np",
		"--foo": "", "-nt": "", "--zzzzzzzz": "", "--=": "",
	} {
		_, err := translate([]string{word, "./a"}, newRoot(nil).Flags())
		if err == nil {
			t.Errorf("%s is accepted, want an error", word)
			continue
		}
		bare, _, _ := strings.Cut(word, "=")
		if got := err.Error(); got != "unknown option "+bare+didYouMean(strings.TrimPrefix(want, "--")) {
			t.Errorf("%s: %s, want %q", word, got, want)
		}
	}
	for words, want := range map[[2]string]int{
		{"", ""}: 0, {"abc", ""}: 3, {"", "abc"}: 3, {"abc", "abd"}: 1, {"abc", "acb"}: 1, {"abcd", "badc"}: 2, {"abc", "bca"}: 2, {"kitten", "sitting"}: 3,
	} {
		if got := editDistance(words[0], words[1]); got != want {
			t.Errorf("distance of %q: %d, want %d", words, got, want)
		}
	}
}

// No two options have the same name, and no flag of oshrun hides one.
func TestHabitNames(t *testing.T) {
	flags, seen := newRoot(nil).Flags(), map[string]bool{}
	both := append([]string{"host", "hostfile", "nodes", "env"}, hiddenFlags...) // one meaning, but for env: it has words of its own
	for _, h := range habits {
		for name := range strings.FieldsSeq(h.names) {
			own := flags.Lookup(name) != nil && len(name) > 1 || len(name) == 1 && flags.ShorthandLookup(name) != nil && name != "n"
			if seen[name] || own && !slices.Contains(both, name) {
				t.Errorf("%s has two meanings", name)
			}
			seen[name] = true
		}
	}
}

// The options take effect: the environment, files, the number of PEs, processors.
func TestHabitsAtWork(t *testing.T) {
	status, out, said := execute(t, strings.Fields("-genv A 1 -mca pml ob1 -n 1 printenv A OMPI_MCA_pml : -n 1 printenv A")...)
	lines := strings.Fields(out)
	slices.Sort(lines)
	if status != 0 || !slices.Equal(lines, []string{"1", "1", "ob1"}) {
		t.Errorf("environment: status %d, %q, %s", status, out, said)
	}
	dir := filepath.Join(t.TempDir(), "out")
	status, out, said = execute(t, "--output-filename", dir+":nocopy", "-n", "11", "echo", "hello")
	text, err := os.ReadFile(filepath.Join(dir, "1", "rank.10", "stdout"))
	if status != 0 || out != "" || string(text) != "hello\n" || err != nil {
		t.Errorf("--output-filename: status %d, %q, file %q, %v, %s", status, out, text, err, said)
	}
	status, out, said = execute(t, "-H", "localhost:3", "echo", "x")
	if status != 0 || out != "x\nx\nx\n" {
		t.Errorf("-H localhost:3: status %d, %q, %s", status, out, said)
	}
	cpus := node(t).Allowed()
	last := fmt.Sprint(cpus[len(cpus)-1])
	status, out, said = execute(t, "--cpu-set", last, "-n", "2", "grep", "Cpus_allowed_list", "/proc/self/status")
	if want := strings.Repeat("Cpus_allowed_list:\t"+last+"\n", 2); status != 0 || out != want {
		t.Errorf("--cpu-set %s: status %d, %q, want %q, %s", last, status, out, want, said)
	}
	if status, _, said = execute(t, "--cpu-set", "60000", "-n", "1", "true"); status != 4 || !strings.Contains(said, "processor 60000") {
		t.Errorf("--cpu-set 60000: status %d, %s", status, said)
	}
}

// Display options print a job that is not launched.
func TestDisplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	stats := filepath.Join(t.TempDir(), "stats")
	status, out, said := execute(t, "--display", "map,allocation", "--do-not-launch", "--stats=json:"+stats, "--bind-to", "core:overload-allowed", "-n", "2", "touch", file, ":", "-n", "1", "true")
	for _, want := range []string{"allocation: ", "map: 3 PEs on ", "PE 0 bound to core ", "program touch", "PE 2 bound to core ", "program true"} {
		if !strings.Contains(said, want) {
			t.Errorf("stderr lacks %q:\n%s", want, said)
		}
	}
	if status != 0 || out != "" {
		t.Errorf("status %d, output %q", status, out)
	}
	for _, name := range []string{file, stats} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s exists, want no file: %v", name, err)
		}
	}
	if status, _, said = execute(t, "--do-not-launch", "-n", "1", "no-such-program"); status != 4 {
		t.Errorf("program that does not exist: status %d, %s", status, said)
	}
}

// --quiet keeps the error and drops its hint.
func TestQuiet(t *testing.T) {
	status, _, said := execute(t, "-q", "--stdin", "9", "-n", "1", "true")
	if status != 2 || !strings.Contains(said, "--stdin") || strings.Contains(said, "hint:") {
		t.Errorf("status %d, %q", status, said)
	}
}

// The help topic lists every option.
func TestHelpMpirun(t *testing.T) {
	text, err := say(t, "help", "mpirun")
	rows := sayJSON[[]habitRow](t, "help", "mpirun", "--json")
	if err != nil || len(rows) != len(habits)+len(ownHabits) {
		t.Errorf("%d rows, want %d; %v", len(rows), len(habits)+len(ownHabits), err)
	}
	for _, r := range rows {
		if !strings.Contains(text, r.Option) || r.Of == "" || r.Here == "" {
			t.Errorf("the text lacks %+v", r)
		}
	}
}
