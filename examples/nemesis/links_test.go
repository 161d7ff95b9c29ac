package main

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// echo answers every line.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if _, err := c.Write(append(lines.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// says sends a line and reports whether it comes back in time.
func says(c net.Conn, line string, patience time.Duration) bool {
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return false
	}
	if c.SetReadDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	return err == nil && string(buf[:n]) == line+"\n"
}

func TestLinksHoldCutAndHeal(t *testing.T) {
	const soon, long = 50 * time.Millisecond, 5 * time.Second
	held := func(s *linkState) { s.held = true }
	for _, c := range []struct {
		name    string
		disturb func(*links)
		passes  bool // while disturbed
		lives   bool // the connection, after it
	}{
		{"nothing", func(*links) {}, true, true},
		{"held one way", func(l *links) { l.set([]int{0}, []int{1}, held) }, false, true},
		{"held the other way", func(l *links) { l.set([]int{1}, []int{0}, held) }, false, true},
		{"held for others only", func(l *links) { l.apart([]int{2}, []int{0, 1}, held) }, true, true},
		{"cut", func(l *links) { l.apart([]int{0}, []int{1, 2}, func(s *linkState) { s.cut = true }) }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := openLinks([]string{echo(t), echo(t), echo(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.close() })
			conn, err := net.Dial("tcp", l.dialMap(0)[l.addrs[1]])
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if !says(conn, "before", long) {
				t.Fatal("the way is not open")
			}
			c.disturb(l)
			if got := says(conn, "during", map[bool]time.Duration{true: long, false: soon}[c.passes]); got != c.passes {
				t.Errorf("passes: %v", got)
			}
			l.heal()
			if c.lives && !c.passes {
				buf := make([]byte, 100)
				_ = conn.SetReadDeadline(time.Now().Add(long))
				if n, err := conn.Read(buf); string(buf[:n]) != "during\n" {
					t.Errorf("what was held comes as %q, %v", buf[:n], err)
				}
			}
			if got := says(conn, "after", long); got != c.lives {
				t.Errorf("lives: %v", got)
			}
		})
	}
}
