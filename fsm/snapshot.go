package fsm

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"
)

// A snapshot is
//
//	magic, header record, records, trailer record
//
// where a record is a length (4 bytes, big-endian), a kind (1 byte) and as many
// bytes of JSON. The trailer counts the records before it and carries the
// CRC-32C of everything before it. The header carries the applied index,
// because raft hands a snapshot over without one.
const (
	snapshotMagic = "sluice\x00s"
	// snapshotFormat is the newest that is read. What is written has the oldest
	// that can hold it, so that members of an older version can take it.
	snapshotFormat = 2
	formatStaged   = 2 // has a restore that is under way
	recordHeader   = 'H'
	recordHead     = 5
)

type snapshotHeader struct {
	Format int `json:"format"`
	position
}

type snapshotTrailer struct {
	Records int    `json:"records"`
	CRC     uint32 `json:"crc32c"`
}

// crcTable returns the table of CRC-32C; crc32 makes it once.
func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Snapshot captures the state. Raft calls it on Apply's goroutine; Persist of
// what it returns runs beside later Applies. ErrStopped after an entry that
// could not be applied: raft believes that it was.
func (s *State) Snapshot() (raft.FSMSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return nil, s.stopped
	}
	return &snapshot{content: s.capture()}, nil
}

type snapshot struct{ content *content }

var _ raft.FSMSnapshot = (*snapshot)(nil)

// Persist writes the snapshot; if that fails the sink is cancelled.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	err := writeSnapshot(sink, s.content)
	if err == nil {
		err = sink.Close()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return nil
}

// Release has nothing to free.
func (s *snapshot) Release() {}

// format returns the oldest one that can hold the content.
func (c *content) format() int {
	if c.staged != nil {
		return formatStaged
	}
	return 1
}

func writeSnapshot(w io.Writer, c *content) error {
	out := &snapshotWriter{w: bufio.NewWriterSize(w, 1<<16), crc: crc32.New(crcTable())}
	out.write([]byte(snapshotMagic))
	header, err := json.Marshal(snapshotHeader{Format: c.format(), position: c.position})
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	out.record(recordHeader, header)
	count := 0
	err = c.records(func(kind recordKind, payload []byte) error {
		count++
		out.record(kind, payload)
		return out.err
	})
	if err != nil {
		return err
	}
	trailer, err := json.Marshal(snapshotTrailer{Records: count, CRC: out.crc.Sum32()})
	if err != nil {
		return fmt.Errorf("encode trailer: %w", err)
	}
	out.record(recordTrailer, trailer)
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

type snapshotWriter struct {
	w   *bufio.Writer
	crc hash.Hash32
	err error
}

func (w *snapshotWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	w.crc.Write(b)
	_, w.err = w.w.Write(b)
}

func (w *snapshotWriter) record(kind recordKind, payload []byte) {
	var head [recordHead]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(payload)))
	head[4] = byte(kind)
	w.write(head[:])
	w.write(payload)
}

// Restore replaces the state by a snapshot's. Raft calls it while nothing is
// applied. All of the snapshot is read and checked first: with an error
// (ErrDamaged, ErrNewerFormat, the reader's) the old state stays.
func (s *State) Restore(r io.ReadCloser) error {
	c, err := readSnapshot(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return s.stopped
	}
	if err := s.install(c); err != nil {
		return fmt.Errorf("read snapshot: %w: %w", ErrDamaged, err)
	}
	s.dirty = newDirtySet(true)
	return nil
}

func readSnapshot(r io.Reader) (*content, error) {
	in := &snapshotReader{r: bufio.NewReaderSize(r, 1<<16), crc: crc32.New(crcTable())}
	b := &contentBuilder{}
	if err := in.header(b); err != nil {
		return nil, err
	}
	for count := 0; ; count++ {
		sum := in.crc.Sum32()
		kind, payload, err := in.record()
		if err != nil {
			return nil, err
		}
		if kind == recordTrailer {
			if err := in.trailer(payload, count, sum); err != nil {
				return nil, err
			}
			break
		}
		if err := b.add(kind, payload); err != nil {
			return nil, fmt.Errorf("%w: record %d: %w", ErrDamaged, count, err)
		}
	}
	c, err := b.finish()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return c, nil
}

type snapshotReader struct {
	r   *bufio.Reader
	crc hash.Hash32
	buf []byte
}

func (r *snapshotReader) header(b *contentBuilder) error {
	magic := make([]byte, len(snapshotMagic))
	if err := r.full(magic); err != nil {
		return err
	}
	if string(magic) != snapshotMagic {
		return fmt.Errorf("%w: it does not begin like a snapshot", ErrDamaged)
	}
	kind, payload, err := r.record()
	if err != nil {
		return err
	}
	var h snapshotHeader
	// Not decodeJSON: a newer format may have fields of its own.
	if err := json.Unmarshal(payload, &h); err != nil || kind != recordHeader {
		return fmt.Errorf("%w: it has no header", ErrDamaged)
	}
	if h.Format > snapshotFormat {
		return fmt.Errorf("%w: its format is %d, this version reads up to %d", ErrNewerFormat, h.Format, snapshotFormat)
	}
	if h.Format < 1 || h.Now < 0 || h.Now > maxStamp {
		return fmt.Errorf("%w: its header is impossible", ErrDamaged)
	}
	b.content.position = h.position
	return nil
}

func (r *snapshotReader) trailer(payload []byte, count int, sum uint32) error {
	var t snapshotTrailer
	if err := decodeJSON(payload, &t); err != nil {
		return fmt.Errorf("%w: trailer: %w", ErrDamaged, err)
	}
	if t.Records != count || t.CRC != sum {
		return fmt.Errorf("%w: count or checksum is wrong", ErrDamaged)
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there are bytes after the end", ErrDamaged)
	}
	return nil
}

// record returns the next record; the payload is valid until the next call.
func (r *snapshotReader) record() (recordKind, []byte, error) {
	var head [recordHead]byte
	if err := r.full(head[:]); err != nil {
		return 0, nil, err
	}
	// The buffer grows with what is really there, so that a damaged length
	// does not allocate gigabytes.
	r.buf = r.buf[:0]
	for left := int(binary.BigEndian.Uint32(head[:])); left > 0; {
		n := min(left, 1<<20)
		start := len(r.buf)
		r.buf = append(r.buf, make([]byte, n)...)
		if err := r.full(r.buf[start:]); err != nil {
			return 0, nil, err
		}
		left -= n
	}
	return recordKind(head[4]), r.buf, nil
}

func (r *snapshotReader) full(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	r.crc.Write(b)
	return err
}

// Digest returns the SHA-256 of the whole state in hex. Replicas that applied
// the same index have the same one. It encodes everything: for tests and checks.
func (s *State) Digest() string {
	_, digest := s.DigestAt()
	return digest
}

// DigestAt returns the digest together with the index of the entry that made
// the state what it is. Apply waits only while the state is captured, not while
// it is encoded. Any goroutine calls.
func (s *State) DigestAt() (index uint64, digest string) {
	s.mu.Lock()
	c := s.capture()
	s.mu.Unlock()
	h := sha256.New()
	if err := writeSnapshot(h, c); err != nil {
		return c.position.Index, "error: " + err.Error()
	}
	return c.position.Index, hex.EncodeToString(h.Sum(nil))
}
