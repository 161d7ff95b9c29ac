package admincli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackupAndRestoreOfAFile(t *testing.T) {
	r := newRig(t)
	r.ok("key", "generate", "--alias", "alice")
	r.ok("team", "new", "--id", "red")
	path := filepath.Join(t.TempDir(), "nightly.backup")
	if err := os.WriteFile(path, []byte("yesterday's"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := r.ok("backup", path)
	if !strings.HasPrefix(out, path+": 1 keys, 1 teams, configuration version 1, as of log index ") || strings.Count(out, "\n") != 1 {
		t.Errorf("backup says %q", out)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	onlyFile(t, path)

	fresh := newRig(t)
	out = fresh.ok("restore", path)
	if !strings.HasPrefix(out, "Restored 1 keys, 1 teams and configuration version 1, from the backup of 2026-10-02 12:00:00 UTC.") || strings.Count(out, "\n") != 1 {
		t.Errorf("restore says %q", out)
	}
	if k, ok := fresh.state.View().KeyByAlias("alice"); !ok {
		t.Errorf("key %+v", k)
	}
	if out := newRig(t).ok("-o", "json", "restore", path); !strings.Contains(out, `"status": "restored"`) || !strings.Contains(out, `"keys": 1`) {
		t.Errorf("JSON is %s", out)
	}
	_, _, err = fresh.run("restore", path)
	if err == nil || !strings.Contains(err.Error(), "fresh cluster") || strings.Contains(err.Error(), "\n") || ExitCode(err) != 1 {
		t.Errorf("a second time: %v", err)
	}
}

func TestBackupToStdoutLeavesTheLineToStderr(t *testing.T) {
	r := newRig(t)
	out, stderr, err := r.run("backup", "-")
	if err != nil || !strings.HasPrefix(out, "sluice\x00b") || !strings.HasPrefix(stderr, "Backup: 0 keys") {
		t.Errorf("%.20q, %q, %v", out, stderr, err)
	}
}

func TestABackupThatFailsLeavesTheOldFile(t *testing.T) {
	r := newRig(t)
	r.env[envMasterKey] = "sk-wrong"
	path := filepath.Join(t.TempDir(), "nightly.backup")
	if err := os.WriteFile(path, []byte("yesterday's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.run("backup", path); ExitCode(err) != 1 {
		t.Errorf("error is %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "yesterday's" {
		t.Errorf("%q, %v", b, err)
	}
	onlyFile(t, path)
}

// onlyFile makes sure that nothing half made lies beside the file.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestBackupAndRestoreAreUsedWrongly(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"no file":               {[]string{"backup"}, 2},
		"an empty name":         {[]string{"backup", ""}, 2},
		"two files":             {[]string{"restore", "a", "b"}, 2},
		"a file that is not":    {[]string{"restore", filepath.Join(dir, "none")}, 2},
		"a directory":           {[]string{"restore", dir}, 2},
		"a place that is not":   {[]string{"backup", filepath.Join(dir, "none", "file")}, 1},
		"a backup of something": {[]string{"restore", os.Args[0]}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := r.run(tt.args...)
			if ExitCode(err) != tt.code || errors.Is(err, nil) || strings.Contains(err.Error(), "\n") {
				t.Errorf("code %d: %v", ExitCode(err), err)
			}
		})
	}
}

// A backup takes the place of a file, never of anything else.
func TestABackupReplacesFilesOnly(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	target, link, dangling, socket := at("nightly-1"), at("latest"), at("dangling"), at("socket")
	err := errors.Join(os.WriteFile(target, []byte("yesterday's"), 0o600), os.Symlink("nightly-1", link),
		os.Symlink("nightly-2", dangling), os.Mkdir(at("dir"), 0o700))
	l, lerr := net.Listen("unix", socket)
	if err := errors.Join(err, lerr); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRig(t)
	for _, path := range []string{socket, at("dir")} {
		_, _, err := r.run("backup", path)
		if ExitCode(err) != 2 || !strings.Contains(err.Error(), path+" is not a file") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: code %d: %v", path, ExitCode(err), err)
		}
	}
	if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("the socket is now %v, %v", info, err)
	}
	for path, file := range map[string]string{link: target, dangling: at("nightly-2")} {
		r.ok("backup", path)
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("the link %s is now %v, %v", path, info, err)
		}
		if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "sluice\x00b") {
			t.Errorf("%s holds %.20q, %v", file, b, err)
		}
	}
}
