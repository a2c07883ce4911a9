package pmi1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// one is MPICH's command for one program of several.
const one = "mcmd=spawn;nprocs=2;execname=./child prog;totspawns=2;spawnssofar=1;arg1=-x=a b;argcnt=1;" +
	"preput_num=1;preput_key_0=PARENT_ROOT_PORT_NAME;preput_val_0=tag#0$connentry#0A$;" +
	"info_num=1;info_key_0=wdir;info_val_0=/a dir;endcmd;"

const two = "mcmd=spawn;nprocs=1;execname=other;totspawns=2;spawnssofar=2;argcnt=0;preput_num=1;" +
	"preput_key_0=PARENT_ROOT_PORT_NAME;preput_val_0=tag#0$connentry#0A$;info_num=0;endcmd;"

func TestSpawn(t *testing.T) {
	w := newTable(t, "a2")
	w.join("a2.0", "a2.1")
	w.want(w.say("a2.1", one[:50]))
	w.want(w.say("a2.1", one[50:]))
	var got *SpawnRequest
	for _, a := range w.core.Step(event{kind: evInput, conn: w.conns[proc("a2.1")], data: []byte(strings.ReplaceAll(two, ";", "\n"))}, nil) {
		if a.kind == actSpawn {
			got = a.spawn
		}
	}
	want := &SpawnRequest{
		ID: 1, From: proc("a2.1"),
		Apps: []SpawnApp{
			{Cmd: "./child prog", Args: []string{"-x=a b"}, MaxProcs: 2, Infos: []Pair{{"wdir", "/a dir"}}},
			{Cmd: "other", MaxProcs: 1},
		},
		Preput: []Pair{{"PARENT_ROOT_PORT_NAME", "tag#0$connentry#0A$"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	w.want(w.say("a2.0", "cmd=get_appnum;"), "a2.0< cmd=appnum appnum=0")
	w.want(w.step(event{kind: evSpawned, id: 1}), "a2.1< cmd=spawn_result rc=0 msg=success")
	w.want(w.step(event{kind: evSpawned, id: 1}))
	w.want(w.say("a2.1", "cmd=get_appnum;"), "a2.1< cmd=appnum appnum=0")
}

// TestSpawnRefused: an error in a request is answered after the whole request, and the client can go on.
func TestSpawnRefused(t *testing.T) {
	single := strings.NewReplacer("totspawns=2", "totspawns=1", "spawnssofar=2", "spawnssofar=1").Replace(two)
	for name, x := range map[string][2]string{
		"no program":    {strings.Replace(single, "execname=other;", "", 1), "spawn_without_execname"},
		"no number":     {strings.Replace(single, "nprocs=1", "nprocs=one", 1), "nprocs=one"},
		"no processes":  {strings.Replace(single, "nprocs=1", "nprocs=0", 1), "nprocs=0"},
		"too many":      {strings.Replace(single, "nprocs=1", "nprocs=1000000000", 1), "nprocs=1000000000"},
		"no argument":   {strings.Replace(single, "argcnt=0", "argcnt=2000000000", 1), "without_arg1"},
		"no value":      {strings.Replace(single, "info_num=0", "info_num=2000000000", 1), "info_key_0"},
		"no count":      {strings.Replace(single, "totspawns=1;", "", 1), "totspawns="},
		"another":       {strings.Replace(single, "mcmd=spawn", "mcmd=dance", 1), "mcmd=dance"},
		"no key":        {strings.Replace(single, "argcnt", "nonsense;argcnt", 1), `"nonsense"`},
		"a long preput": {strings.Replace(single, "tag#", strings.Repeat("x", maxValue), 1), "PARENT_ROOT_PORT_NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTable(t, "a1")
			w.join("a1.0")
			did := w.say("a1.0", x[0])
			if len(did) != 1 || !strings.HasPrefix(did[0], "a1.0< cmd=spawn_result rc=-1 msg=") || !strings.Contains(did[0], x[1]) {
				t.Errorf("%q, want a refusal with %s", did, x[1])
			}
			w.want(w.say("a1.0", "cmd=get_appnum;"), "a1.0< cmd=appnum appnum=0")
			if did := w.say("a1.0", single); len(did) != 1 || !strings.Contains(did[0], "spawns") {
				t.Errorf("valid request after it: %q", did)
			}
			w.want(w.step(event{kind: evSpawned, id: 1, text: "no such\nprogram"}), "a1.0< cmd=spawn_result rc=-1 msg=no_such_program")
		})
	}
}

func TestSpawnWithoutEnd(t *testing.T) {
	w := newTable(t, "a1")
	w.join("a1.0")
	line := "arg1=" + strings.Repeat("x", 1000) + ";"
	var did []string
	for sent := 0; sent < 2*maxSpawn && did == nil; sent += len(line) {
		did = w.say("a1.0", line[:0]+"mcmd="+line)
	}
	w.want(did, "a1.0 refused: a spawn request of more than 1048576 bytes", "a1.0 closed", "a1.0 lost")
}

// TestSpawnOutlived: the answer comes after its client has gone.
func TestSpawnOutlived(t *testing.T) {
	w := newTable(t, "a1")
	w.join("a1.0")
	w.say("a1.0", one+two)
	w.want(w.exit("a1.0"), "a1.0 closed")
	w.want(w.step(event{kind: evSpawned, id: 1}))
}
