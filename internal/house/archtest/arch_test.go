package archtest

import (
	"io/fs"
	"os"
	"testing"
)

// checkers are the rules that need only the source.
var checkers = map[string]func(*module) []string{
	"every package is in the table": checkKnown,
	"imports follow the table":      checkLayers,
	"pure packages are pure":        checkPure,
	"owners":                        checkOwners,
	"test modules stay in tests":    checkTestOnly,
	"no cgo in the default build":   checkCgo,
	"the library is lean":           checkLean,
	"one wait function":             checkWaiting,
	"no timer of no time":           checkTimers,
	"package comments":              checkPackageDocs,
	"comments of exported names":    checkExportedDocs,
	"labels are lists":              checkLabels,
	"lengths":                       checkLengths,
	"methods":                       checkMethods,
}

func report(t *testing.T, bad []string) {
	t.Helper()
	for _, b := range bad {
		t.Error(b)
	}
}

// TestArchitecture applies every rule to this module.
func TestArchitecture(t *testing.T) {
	root := os.DirFS("../../..")
	m, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range checkers {
		t.Run(name, func(t *testing.T) { report(t, check(m)) })
	}
	t.Run("dependencies have a reason", func(t *testing.T) {
		doc, err := fs.ReadFile(root, "docs/dependencies.md")
		if err != nil {
			t.Fatal(err)
		}
		required, err := allRequired(root)
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkDependencies(m, string(doc), required))
	})
}
