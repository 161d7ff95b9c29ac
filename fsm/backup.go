package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// A backup is
//
//	magic(8) length(4) header crc(4) │ snapshot
//
// The header is JSON of that length and says what follows; the CRC-32C covers
// everything before it, and the header carries the length and the SHA-256 of
// the snapshot. So a flipped bit anywhere, a missing end and bytes after it are
// found before anything is done with the file. Integers are big-endian.
const (
	backupMagic     = "sluice\x00b"
	backupFormat    = 1
	maxBackupHeader = 4 << 10
	// MaxBackup is the largest backup in bytes that is restored: about half a
	// million keys.
	MaxBackup = 256 << 20
)

// ErrNotBackup is returned for a file that does not begin like a backup.
var ErrNotBackup = errors.New("not a backup of sluice")

// BackupInfo is the header of a backup.
type BackupInfo struct {
	Format        int       `json:"format"`
	ClusterID     string    `json:"cluster_id"`
	Version       string    `json:"version"` // of sluice
	CreatedAt     time.Time `json:"created_at"`
	AppliedIndex  uint64    `json:"applied_index"` // of the last entry that it contains
	Keys          int       `json:"keys"`
	Teams         int       `json:"teams"`
	ConfigVersion uint64    `json:"config_version"`
	Length        int64     `json:"length"` // of the snapshot, bytes
	SHA256        string    `json:"sha256"` // of the snapshot, hex
}

// Backup is the state of one moment, on its way into a file.
type Backup struct {
	Info    BackupInfo
	header  []byte
	content *content
}

// Backup captures the state. Applying stands still for as long as a snapshot of
// Raft's takes: the records are shared, only the running windows are copied.
// They are encoded twice, once here to learn length and checksum, so that
// neither memory nor disk holds the whole. A restore that is under way is not
// part of a backup. Any goroutine may call. ErrStopped after an entry that
// could not be applied.
func (s *State) Backup(clusterID, version string) (*Backup, error) {
	s.mu.Lock()
	if s.stopped != nil {
		s.mu.Unlock()
		return nil, s.stopped
	}
	c := s.capture()
	s.mu.Unlock()
	c.staged = nil
	sum := &counted{w: sha256.New()}
	if err := writeSnapshot(sum, c); err != nil {
		return nil, fmt.Errorf("encode backup: %w", err)
	}
	b := &Backup{content: c, Info: BackupInfo{
		Format: backupFormat, ClusterID: clusterID, Version: version, CreatedAt: s.o.Now().UTC(), AppliedIndex: c.position.Index,
		Keys: c.view.KeyCount(), Teams: c.view.TeamCount(), ConfigVersion: c.view.version,
		Length: sum.n, SHA256: hex.EncodeToString(sum.w.Sum(nil)),
	}}
	header, err := json.Marshal(b.Info)
	if err != nil {
		return nil, fmt.Errorf("encode backup: %w", err)
	}
	b.header = append(b.header, backupMagic...)
	b.header = binary.BigEndian.AppendUint32(b.header, uint32(len(header)))
	b.header = append(b.header, header...)
	b.header = binary.BigEndian.AppendUint32(b.header, crc32.Checksum(b.header, crcTable()))
	return b, nil
}

// counted counts what goes into a hash.
type counted struct {
	w interface {
		io.Writer
		Sum([]byte) []byte
	}
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Size returns the length of the whole file in bytes.
func (b *Backup) Size() int64 { return int64(len(b.header)) + b.Info.Length }

// Write writes the file.
func (b *Backup) Write(w io.Writer) error {
	if _, err := w.Write(b.header); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := writeSnapshot(w, b.content); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// VerifyBackup reads a backup to its end and checks that it is whole: magic,
// header, length, checksum, nothing behind it. What it contains is not looked
// at. Errors: ErrNotBackup, ErrDamaged, ErrNewerFormat, the reader's.
func VerifyBackup(r io.Reader) (*BackupInfo, error) {
	info, err := readBackupHeader(r)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, info.Length))
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if n < info.Length {
		return nil, fmt.Errorf("%w: it ends after %d of %d bytes", ErrDamaged, n, info.Length)
	}
	if hex.EncodeToString(h.Sum(nil)) != info.SHA256 {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	switch _, err := io.ReadFull(r, make([]byte, 1)); {
	case err == nil:
		return nil, fmt.Errorf("%w: there are bytes after the end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return info, nil
}

func readBackupHeader(r io.Reader) (*BackupInfo, error) {
	head := make([]byte, len(backupMagic)+4)
	n, err := io.ReadFull(r, head)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", ErrNotBackup)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("read backup: %w", err)
	case !bytes.HasPrefix(head[:n], []byte(backupMagic)):
		return nil, fmt.Errorf("%w: it begins with something else", ErrNotBackup)
	}
	length := binary.BigEndian.Uint32(head[len(backupMagic):])
	if err != nil || length > maxBackupHeader {
		return nil, fmt.Errorf("%w: its header is cut or altered", ErrDamaged)
	}
	rest := make([]byte, length+4)
	if _, err := io.ReadFull(r, rest); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: it ends within its header", ErrDamaged)
		}
		return nil, fmt.Errorf("read backup: %w", err)
	}
	header := rest[:length]
	sum := crc32.Update(crc32.Checksum(head, crcTable()), crcTable(), header)
	if sum != binary.BigEndian.Uint32(rest[length:]) {
		return nil, fmt.Errorf("%w: its header is altered", ErrDamaged)
	}
	var info BackupInfo
	// Not decodeJSON: a newer format may have fields of its own.
	if err := json.Unmarshal(header, &info); err != nil || info.Format < 1 || info.Length < 0 {
		return nil, fmt.Errorf("%w: its header is impossible", ErrDamaged)
	}
	if info.Format > backupFormat {
		return nil, fmt.Errorf("%w: its format is %d, this version reads up to %d", ErrNewerFormat, info.Format, backupFormat)
	}
	return &info, nil
}

// StoredBackup is a whole backup that was read and understood.
type StoredBackup struct {
	Info     BackupInfo
	snapshot []byte
}

// ParseBackup checks all of a backup: that it is whole, and that the state in it
// can be. b must not be changed afterwards. Errors: those of VerifyBackup, and
// *InvalidError for a state that no cluster can take over.
func ParseBackup(b []byte) (*StoredBackup, error) {
	info, err := VerifyBackup(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	s := &StoredBackup{Info: *info, snapshot: b[int64(len(b))-info.Length:]}
	if _, err := readRestorable(bytes.NewReader(s.snapshot)); err != nil {
		return nil, err
	}
	return s, nil
}
