package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The layout of a bbolt file, as far as it must be right before bbolt may open
// it. bbolt trusts its pages: it panics on wrong ones, in a goroutine of its own
// where nobody can catch it, and reads beyond a file that was cut short.
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	boltPageHeader = 16
	boltMetaSize   = 64
	boltElement    = 16

	boltBranch = 0x01
	boltLeaf   = 0x02
	boltMeta   = 0x04

	boltBucketLeaf   = 0x01
	boltBucketHeader = 16
	boltNoFreelist   = ^uint64(0)
	boltMaxDepth     = 64
)

var order = binary.NativeEndian

// boltFile walks every page that a bbolt file reaches from its root.
type boltFile struct {
	r        io.ReaderAt
	size     int64
	pageSize int64
	high     uint64 // pages from here on are not in use
	seen     map[uint64]bool
}

// checkBolt returns why the bbolt file at path cannot be trusted, or nil. The
// caller holds the file's lock. A file with one bad meta page is refused as
// well, although bbolt would open it: it would silently go back by one commit,
// which may hold a vote or an acknowledged entry.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return checkBoltReader(f, st.Size())
}

func checkBoltReader(r io.ReaderAt, size int64) error {
	b := &boltFile{r: r, size: size, seen: map[uint64]bool{}}
	first, err := b.meta(0)
	if err != nil {
		return fmt.Errorf("meta page 0: %w", err)
	}
	b.pageSize = int64(first.pageSize)
	second, err := b.meta(b.pageSize)
	if err != nil {
		return fmt.Errorf("meta page 1: %w", err)
	}
	m := first
	if second.txid > first.txid {
		m = second
	}
	if second.pageSize != first.pageSize {
		return errors.New("meta pages disagree on the page size")
	}
	b.high = m.high
	if b.high > uint64(size/b.pageSize) {
		return fmt.Errorf("file ends after page %d of %d", size/b.pageSize, b.high)
	}
	if m.freelist != boltNoFreelist {
		if err := b.claim(m.freelist, 0); err != nil {
			return fmt.Errorf("free list: %w", err)
		}
	}
	_, err = b.page(m.root, nil, nil, 0)
	return err
}

type boltMetaPage struct {
	pageSize                   uint32
	root, freelist, high, txid uint64
}

func (b *boltFile) meta(off int64) (boltMetaPage, error) {
	var buf [boltPageHeader + boltMetaSize]byte
	if _, err := b.r.ReadAt(buf[:], off); err != nil {
		return boltMetaPage{}, err
	}
	m := buf[boltPageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(m[:56])
	switch {
	case order.Uint32(m[0:]) != boltMagic:
		return boltMetaPage{}, errors.New("wrong magic number")
	case order.Uint32(m[4:]) != boltVersion:
		return boltMetaPage{}, errors.New("wrong version")
	case order.Uint64(m[56:]) != h.Sum64():
		return boltMetaPage{}, errors.New("wrong checksum")
	}
	p := boltMetaPage{
		pageSize: order.Uint32(m[8:]), root: order.Uint64(m[16:]),
		freelist: order.Uint64(m[32:]), high: order.Uint64(m[40:]), txid: order.Uint64(m[48:]),
	}
	if p.pageSize < 512 || p.pageSize > 1<<20 || p.pageSize&(p.pageSize-1) != 0 {
		return boltMetaPage{}, errors.New("impossible page size")
	}
	return p, nil
}

// claim marks n pages after id as in use, each at most once.
func (b *boltFile) claim(id uint64, overflow uint32) error {
	if id < 2 || id >= b.high || uint64(overflow) >= b.high-id {
		return fmt.Errorf("page %d+%d lies outside of the %d pages in use", id, overflow, b.high)
	}
	for p := id; p <= id+uint64(overflow); p++ {
		if b.seen[p] {
			return fmt.Errorf("page %d is referred to twice", p)
		}
		b.seen[p] = true
	}
	return nil
}

// page walks page id, whose keys lie in [low, below); nil is no bound. It
// returns the page's last key.
func (b *boltFile) page(id uint64, low, below []byte, depth int) ([]byte, error) {
	if depth > boltMaxDepth {
		return nil, errors.New("pages are nested too deep")
	}
	var head [boltPageHeader]byte
	if id >= b.high {
		return nil, fmt.Errorf("page %d lies outside of the %d pages in use", id, b.high)
	}
	if _, err := b.r.ReadAt(head[:], int64(id)*b.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	overflow := order.Uint32(head[12:])
	if got := order.Uint64(head[0:]); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if err := b.claim(id, overflow); err != nil {
		return nil, err
	}
	buf := make([]byte, (int64(overflow)+1)*b.pageSize)
	if _, err := b.r.ReadAt(buf, int64(id)*b.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	last, err := b.elements(buf, low, below, depth)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return last, nil
}

// elements walks a page's contents, which start with its header.
func (b *boltFile) elements(buf, low, below []byte, depth int) ([]byte, error) {
	flags, count := order.Uint16(buf[8:]), int(order.Uint16(buf[10:]))
	if flags != boltBranch && flags != boltLeaf {
		return nil, fmt.Errorf("unexpected kind %#x", flags)
	}
	if boltPageHeader+count*boltElement > len(buf) {
		return nil, fmt.Errorf("%d elements do not fit", count)
	}
	if flags == boltBranch && count == 0 {
		return nil, errors.New("empty branch")
	}
	keys := make([][]byte, count)
	for i := range keys {
		k, err := elementKey(buf, i, flags)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		switch {
		case i == 0 && low != nil && bytes.Compare(k, low) < 0,
			i > 0 && bytes.Compare(k, keys[i-1]) <= 0,
			below != nil && bytes.Compare(k, below) >= 0:
			return nil, fmt.Errorf("element %d: key out of order", i)
		}
		keys[i] = k
	}
	var last []byte
	for i, k := range keys {
		last = k
		var err error
		if flags == boltLeaf {
			err = b.leaf(buf, i, depth)
		} else {
			next := below
			if i+1 < count {
				next = keys[i+1]
			}
			last, err = b.page(order.Uint64(buf[boltPageHeader+i*boltElement+8:]), k, next, depth+1)
		}
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return last, nil
}

// elementKey returns the key of element i after proving that key and value lie
// in the page.
func elementKey(buf []byte, i int, flags uint16) ([]byte, error) {
	at := boltPageHeader + i*boltElement
	e := buf[at:]
	pos, ksize, vsize := uint64(order.Uint32(e[0:])), uint64(order.Uint32(e[4:])), uint64(0)
	if flags == boltLeaf {
		pos, ksize, vsize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
	}
	start := uint64(at) + pos
	if ksize == 0 || start+ksize+vsize > uint64(len(buf)) {
		return nil, errors.New("key or value lies outside of its page")
	}
	return buf[start : start+ksize], nil
}

// leaf follows element i of a leaf page if it is a bucket.
func (b *boltFile) leaf(buf []byte, i, depth int) error {
	at := boltPageHeader + i*boltElement
	e := buf[at:]
	switch order.Uint32(e[0:]) {
	case 0:
		return nil
	case boltBucketLeaf:
	default:
		return errors.New("unknown flags")
	}
	start := at + int(order.Uint32(e[4:])) + int(order.Uint32(e[8:]))
	value := buf[start : start+int(order.Uint32(e[12:]))]
	if len(value) < boltBucketHeader {
		return errors.New("bucket without a header")
	}
	if root := order.Uint64(value); root != 0 {
		_, err := b.page(root, nil, nil, depth+1)
		return err
	}
	inline := value[boltBucketHeader:]
	if len(inline) < boltPageHeader {
		return errors.New("bucket without a page")
	}
	if depth >= boltMaxDepth || order.Uint16(inline[8:]) != boltLeaf {
		return errors.New("bucket with an impossible page")
	}
	_, err := b.elements(inline, nil, nil, depth+1)
	return err
}
