// Package readme runs the README and the examples as a user would: with the packaged module, in an
// empty folder.
package readme

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	module  = "github.com/tollgate/tollgate/clients/go"
	version = "v0.1.0"
)

func TestFirstProgramFromThePackage(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := block(t, string(text), "go")
	if lines := strings.Count(program, "\n"); lines > 15 {
		t.Errorf("the first program has %d lines", lines)
	}
	address := startServer(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "main.go"), strings.ReplaceAll(program, "127.0.0.1:50051", address))
	environment := packaged(t)
	var output string
	for line := range strings.Lines(block(t, string(text), "sh")) {
		output = command(t, folder, environment, line)
	}
	expect(t, output, "at work\nrefused: false error: <nil>\n")
	expect(t, command(t, folder, environment, "go run ."), "refused: true error: <nil>\n")
	if shape := command(t, folder, environment, "gofmt -l ."); shape != "" {
		t.Errorf("gofmt would change the first program")
	}
}

// block returns the first block of code in a language.
func block(t *testing.T, text, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the README has no block in %s", language)
	}
	return found[1]
}

func command(t *testing.T, folder string, environment []string, line string) string {
	t.Helper()
	words := strings.Fields(line)
	run := exec.Command(words[0], words[1:]...)
	run.Dir, run.Env = folder, append(os.Environ(), environment...)
	var errors bytes.Buffer
	run.Stderr = &errors
	output, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", line, err, output, errors.Bytes())
	}
	return string(output)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// packaged writes the module as a module proxy serves it. It returns the environment in which
// the go command uses it.
func packaged(t *testing.T) []string {
	t.Helper()
	proxy := t.TempDir()
	versions := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	root := os.DirFS("../..")
	goMod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(versions, "list"), version+"\n")
	write(t, filepath.Join(versions, version+".mod"), string(goMod))
	write(t, filepath.Join(versions, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version))
	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path == ".tools" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := files.Create(module + "@" + version + "/" + path)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(versions, version+".zip"), archive.String())
	upstream := strings.TrimSpace(command(t, ".", nil, "go env GOPROXY"))
	cache := t.TempDir()
	t.Cleanup(func() { command(t, ".", []string{"GOMODCACHE=" + cache}, "go clean -modcache") })
	// The module cache of the user serves the dependencies; only this module must be new.
	shared := strings.TrimSpace(command(t, ".", nil, "go env GOMODCACHE"))
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + shared + "/cache/download," + upstream,
		"GONOSUMDB=github.com/tollgate/*", "GOMODCACHE=" + cache, "GOFLAGS=-mod=mod",
	}
}

// startServer starts a server with the policy of the web example and returns its address.
func startServer(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("TOLLGATE_BINARY")
	if binary == "" {
		binary = "../../../../target/debug/tollgate"
	}
	config := filepath.Join(t.TempDir(), "tollgate.toml")
	write(t, config, "[[policy]]\nname = \"reads\"\n[[policy.limit]]\nname = \"minute\"\nmax = 2\nwindow = \"1m\"\n")
	address := freeAddress(t)
	start(t, nil, binary, "serve", "--listen", address, "--admin", "off", "--config", config)
	listens(t, address)
	return address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start starts a program, which is killed at the end of the test.
func start(t *testing.T, environment []string, name string, arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	var output bytes.Buffer
	program := exec.Command(name, arguments...)
	program.Env = append(os.Environ(), environment...)
	program.Stderr = &output
	if err := program.Start(); err != nil {
		t.Fatalf("%v; run cargo build, or set TOLLGATE_BINARY", err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	return program, &output
}

func listens(t *testing.T, address string) {
	t.Helper()
	for range 600 {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("nothing listens on %s", address)
}
