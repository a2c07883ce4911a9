package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The command line and the environment of no process of a job on several nodes have the job's secret, however the
// daemons are started. Neither do its files and its log.
func TestEmulatedSecret(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"processes", "agents", "networks"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var flags, secrets []string
			inputs := t.TempDir()
			switch how {
			case "agents":
				flags = []string{"--launch", "exec:" + teeAgent(t, inputs), "--interface", "127.0.0.0/8", "--host", "a.invalid:2,b.invalid:2,c.invalid:2,d.invalid:2"}
			case "networks":
				needNetworks(t)
				flags = []string{"--emulate", "4:netns"}
			default:
				flags = []string{"--emulate", "4"}
			}
			gate := filepath.Join(t.TempDir(), "gate")
			j := start(t, slices.Concat([]string{"-v", "--launch-radix", "2", "-n", "8"}, flags, []string{"sh", "-c", waiter, gate})...)
			found := findings{}
			stop := found.during(j.cmd.Process.Pid) // agents may come and go
			j.ready(8)
			stop()
			all := found.look(j.cmd.Process.Pid)
			isDaemon := func(pid int) bool { return runs(pid, "daemon", "--stdin") }
			if agents := len(j.agents()); agents != clusterHosts {
				t.Errorf("%d agents, want one on each of %d nodes", agents, clusterHosts)
			}
			if daemons := len(all) - len(slices.DeleteFunc(slices.Clone(all), isDaemon)); daemons < clusterHosts || len(all) < 1+clusterHosts+8 {
				t.Errorf("%d processes, %d of them daemons: want oshrun, 4 daemons and 8 PEs", len(all), daemons)
			}
			if how == "agents" {
				secrets = secretsIn(t, inputs)
			}
			found.lookInFiles(t, j.tmp)
			check(t, os.WriteFile(gate, nil, 0o600))
			j.expect(0)
			found.add("the log", []byte(j.stderr.String()))
			found.expectNone(t, secrets)
		})
	}
}

// teeAgent makes a launch agent that copies what daemons get on their standard input into files of a directory.
func teeAgent(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	check(t, os.WriteFile(path, []byte("#!/bin/sh\ntee "+dir+`/$$ | "$@"`+"\n"), 0o700))
	return "sh " + path // which the shell opens for reading only: a copy of the file open for writing does no harm
}

// hexWord finds what may be a secret in its text form.
var hexWord = regexp.MustCompile(`[0-9A-Fa-f]{64}`)

// secretsIn returns the secret that all daemons have got, in all forms that it may have. The words of that length in
// their input are this one, so that hexWord would find it elsewhere, too.
func secretsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	check(t, err)
	if len(files) != clusterHosts {
		t.Fatalf("%d daemons have got an input, want %d", len(files), clusterHosts)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		check(t, err)
		all = append(all, hexWord.FindAllString(string(text), -1)...)
	}
	if len(all) != clusterHosts || len(slices.Compact(slices.Clone(all))) != 1 {
		t.Fatalf("the daemons have got %d secrets, want the same one for each of %d", len(all), clusterHosts)
	}
	raw, err := hex.DecodeString(all[0])
	check(t, err)
	return []string{
		all[0], strings.ToUpper(all[0]), string(raw),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	}
}

// findings are texts of a job, by where they were found.
type findings map[string]string

// add notes a text.
func (f findings) add(where string, text []byte) {
	if !strings.Contains(f[where], string(text)) { // an environment may change with the program
		f[where] += string(text)
	}
}

// look notes the command lines and environments of a process and of those below it, and returns them.
func (f findings) look(pid int) []int {
	all := append(processesBelow(pid), pid)
	for _, pid := range all {
		for _, name := range []string{"cmdline", "environ"} {
			path := fmt.Sprintf("/proc/%d/%s", pid, name)
			text, _ := os.ReadFile(path) // it may have ended
			f.add(path, text)
		}
	}
	return all
}

// during looks again and again until stop is called.
func (f findings) during(pid int) (stop func()) {
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-quit:
				return
			default:
				f.look(pid)
			}
		}
	}()
	return func() { close(quit); <-over }
}

// lookInFiles notes all files of a directory.
func (f findings) lookInFiles(t *testing.T, dir string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		f.add(path, text)
		return err
	}))
}

// expectNone checks that no text has a secret, nor anything that looks like one and is not of this process's environment.
func (f findings) expectNone(t *testing.T, secrets []string) {
	t.Helper()
	own := strings.Join(os.Environ(), "\x00")
	for where, text := range f {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s has the job's secret", where)
			}
		}
		for _, word := range hexWord.FindAllString(text, -1) {
			if !strings.Contains(own, word) {
				t.Errorf("%s has %s, which may be a secret:\n%q", where, word, bytes.ReplaceAll([]byte(text), []byte{0}, []byte{'\n'}))
			}
		}
	}
}

// processesBelow returns the processes that a process has started, and these.
func processesBelow(pid int) (all []int) {
	for _, child := range childrenOf(pid) {
		all = append(append(all, child), processesBelow(child)...)
	}
	return all
}
