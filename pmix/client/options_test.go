package client

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func goodEnv() map[string]string {
	return map[string]string{
		"PMIX_NAMESPACE":         "job-1",
		"PMIX_RANK":              "3",
		"PMIX_SERVER_URI41":      "goshmem-job-1.0;tcp4://127.0.0.1:4242",
		"PMIX_SECURITY_MODE":     "none",
		"PMIX_BFROP_BUFFER_TYPE": "PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_GDS_MODULE":        "hash",
	}
}

func TestFromEnv(t *testing.T) {
	want := Options{Nspace: "job-1", Rank: 3, Address: "127.0.0.1:4242", Security: codec.SecurityNone}
	for name, change := range map[string]func(env map[string]string, want *Options){
		"as set":      func(map[string]string, *Options) {},
		"fewest":      func(env map[string]string, _ *Options) { maps.DeleteFunc(env, isOptional) },
		"native":      func(e map[string]string, w *Options) { e["PMIX_SECURITY_MODE"] = "munge,native"; w.Security = "native" },
		"list of gds": func(env map[string]string, _ *Options) { env["PMIX_GDS_MODULE"] = "ds21,hash" },
		"address of v6": func(e map[string]string, w *Options) {
			e["PMIX_SERVER_URI41"] = "s.0;tcp6://[::1]:7"
			w.Address = "[::1]:7"
		},
		"older name": func(env map[string]string, _ *Options) {
			env["PMIX_SERVER_URI4"] = env["PMIX_SERVER_URI41"]
			delete(env, "PMIX_SERVER_URI41")
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, want := goodEnv(), want
			change(env, &want)
			got, launched, err := FromEnv(lookupIn(env))
			if err != nil || !launched {
				t.Fatalf("launched %v, %v", launched, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, launched, err := FromEnv(lookupIn(nil)); launched || err != nil {
		t.Errorf("empty environment: launched %v, %v", launched, err)
	}
}

func isOptional(name, _ string) bool {
	return name == "PMIX_SECURITY_MODE" || name == "PMIX_BFROP_BUFFER_TYPE" || name == "PMIX_GDS_MODULE"
}

func TestFromEnvErrors(t *testing.T) {
	const unset = "\x00"
	for _, c := range []struct{ name, value, want string }{
		{"PMIX_NAMESPACE", "", `PMIX_NAMESPACE="", want 1 to 255 bytes`},
		{"PMIX_RANK", unset, "PMIX_RANK is not set"},
		{"PMIX_RANK", "three", `PMIX_RANK="three", want a number below 4294967245`},
		{"PMIX_RANK", "-1", `PMIX_RANK="-1"`},
		{"PMIX_RANK", "4294967294", `PMIX_RANK="4294967294"`},
		{"PMIX_SERVER_URI41", unset, "PMIX_SERVER_URI41 is not set"},
		{"PMIX_SERVER_URI41", "x", `PMIX_SERVER_URI41="x", want server.rank;tcp4://address:port`},
		{"PMIX_SERVER_URI41", "x.0;usock:/tmp/x", `want server.rank;tcp4://address:port`},
		{"PMIX_SERVER_URI41", "x.0;tcp4://host", `want server.rank;tcp4://address:port`},
		{"PMIX_SERVER_URI41", "x.0;tcp4://host:99999", `want server.rank;tcp4://address:port`},
		{"PMIX_SECURITY_MODE", "munge", `PMIX_SECURITY_MODE="munge", want a list with none or native`},
		{"PMIX_GDS_MODULE", "ds21", `PMIX_GDS_MODULE="ds21", want a list with hash`},
		{"PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_FULLY_DESC", `want PMIX_BFROP_BUFFER_NON_DESC`},
	} {
		env := goodEnv()
		env[c.name] = c.value
		if c.value == unset {
			delete(env, c.name)
		}
		_, launched, err := FromEnv(lookupIn(env))
		if !launched || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("launched %v, error %v; want one with %s", launched, err, c.want)
		}
	}
}

func FuzzFromEnv(f *testing.F) {
	f.Add("job-1", "0", "goshmem-job-1.0;tcp4://127.0.0.1:4242", "none")
	f.Fuzz(func(t *testing.T, nspace, rank, uri, security string) {
		opts, launched, err := FromEnv(lookupIn(map[string]string{
			"PMIX_NAMESPACE": nspace, "PMIX_RANK": rank, "PMIX_SERVER_URI41": uri, "PMIX_SECURITY_MODE": security,
		}))
		if !launched || (err == nil && (opts.Nspace == "" || opts.Address == "" || opts.Security == "")) {
			t.Errorf("launched %v with %+v, %v", launched, opts, err)
		}
	})
}
